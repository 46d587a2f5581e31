// What Kueue's own code says of queues and workloads, without a cluster: one JSON document a line in, one a line out.
// For every ClusterQueue it answers with `PotentialAvailable`, and for every workload whether the flavor assigner of
// the scheduler finds flavors for it while nothing else runs. What differs between the versions of Kueue is in the
// files named by them.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/resources"
	"sigs.k8s.io/kueue/pkg/scheduler/flavorassigner"
	"sigs.k8s.io/kueue/pkg/util/testing"
	"sigs.k8s.io/kueue/pkg/workload"
)

type question struct {
	Flavors       []kueue.ResourceFlavor `json:"flavors"`
	Cohorts       []kueue.Cohort         `json:"cohorts"`
	ClusterQueues []kueue.ClusterQueue   `json:"clusterQueues"`
	Workloads     []request              `json:"workloads"`
}

type request struct {
	ClusterQueue kueue.ClusterQueueReference `json:"clusterQueue"`
	PodSets      []kueue.PodSet              `json:"podSets"`
}

// Largest is by ClusterQueue, flavor and resource.
type answer struct {
	Largest map[string]map[string]map[string]int64 `json:"largest"`
	Fits    []bool                                 `json:"fits"`
	Reasons []string                               `json:"reasons"`
}

func main() {
	log.SetLogger(logr.Discard())
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fail(err)
		}
		said, err := judge(asked)
		if err != nil {
			fail(err)
		}
		text, err := json.Marshal(said)
		if err != nil {
			fail(err)
		}
		fmt.Println(string(text))
	}
	if err := lines.Err(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func judge(asked question) (*answer, error) {
	ctx := context.Background()
	cache := schdcache.New(testing.NewFakeClient())
	for i := range asked.Flavors {
		cache.AddOrUpdateResourceFlavor(logr.Discard(), &asked.Flavors[i])
	}
	for i := range asked.Cohorts {
		if err := cache.AddOrUpdateCohort(&asked.Cohorts[i]); err != nil {
			return nil, err
		}
	}
	for i := range asked.ClusterQueues {
		if err := cache.AddClusterQueue(ctx, &asked.ClusterQueues[i]); err != nil {
			return nil, err
		}
	}
	snapshot, err := cache.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	said := answer{Largest: map[string]map[string]map[string]int64{}, Fits: []bool{}, Reasons: []string{}}
	for _, queue := range asked.ClusterQueues {
		seen := snapshot.ClusterQueue(kueue.ClusterQueueReference(queue.Name))
		if seen == nil {
			return nil, fmt.Errorf("ClusterQueue %s is not active", queue.Name)
		}
		byFlavor := map[string]map[string]int64{}
		for _, group := range queue.Spec.ResourceGroups {
			for _, flavor := range group.Flavors {
				byFlavor[string(flavor.Name)] = map[string]int64{}
				for _, quota := range flavor.Resources {
					cell := resources.FlavorResource{Flavor: flavor.Name, Resource: quota.Name}
					byFlavor[string(flavor.Name)][string(quota.Name)] = largest(seen, cell)
				}
			}
		}
		said.Largest[queue.Name] = byFlavor
	}
	for _, asks := range asked.Workloads {
		info := workload.NewInfo(&kueue.Workload{Spec: kueue.WorkloadSpec{PodSets: asks.PodSets}})
		queue := snapshot.ClusterQueue(asks.ClusterQueue)
		found := assigned(ctx, info, queue, snapshot)
		said.Fits = append(said.Fits, found.RepresentativeMode() == flavorassigner.Fit)
		said.Reasons = append(said.Reasons, found.Message())
	}
	return &said, nil
}
