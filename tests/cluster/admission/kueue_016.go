//go:build kueue016

package main

import (
	"context"

	"github.com/go-logr/logr"

	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/resources"
	"sigs.k8s.io/kueue/pkg/scheduler/flavorassigner"
	"sigs.k8s.io/kueue/pkg/workload"
)

func largest(queue *schdcache.ClusterQueueSnapshot, cell resources.FlavorResource) int64 {
	return queue.PotentialAvailable(cell)
}

// Nothing runs, so nothing can be preempted, and no oracle is asked.
func assigned(
	_ context.Context, info *workload.Info, queue *schdcache.ClusterQueueSnapshot, all *schdcache.Snapshot,
) flavorassigner.Assignment {
	assigner := flavorassigner.New(info, queue, all.ResourceFlavors, false, nil, nil)
	return assigner.Assign(logr.Discard(), nil)
}
