// A Redis in memory for Argo CD in the tests: `redis HOST:PORT`.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: redis HOST:PORT")
		os.Exit(2)
	}
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// Its clock stands still unless it is moved: keys would never expire.
	for range time.Tick(time.Second) {
		server.FastForward(time.Second)
	}
}
