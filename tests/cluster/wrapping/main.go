// What the webhook of AppWrapper says, without a cluster: one JSON document a line in, its reason to refuse a line out.
// A document has the AppWrapper as it is created, or one before and one after an edit.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/project-codeflare/appwrapper/api/v1beta2"
	"github.com/project-codeflare/appwrapper/internal/webhook"
)

type question struct {
	Before *v1beta2.AppWrapper `json:"before"`
	After  v1beta2.AppWrapper  `json:"after"`
}

func main() {
	log.SetLogger(logr.Discard())
	validator := webhook.NewValidator()
	ctx := admission.NewContextWithRequest(context.Background(), admission.Request{})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var asked question
		reason := ""
		err := json.Unmarshal(lines.Bytes(), &asked)
		if err == nil && asked.Before == nil {
			_, err = validator.ValidateCreate(ctx, &asked.After)
		} else if err == nil {
			_, err = validator.ValidateUpdate(ctx, asked.Before, &asked.After)
		}
		if err != nil {
			reason = err.Error()
		}
		text, err := json.Marshal(reason)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(string(text))
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
