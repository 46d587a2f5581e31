//go:build kueue016

package main

import (
	"context"

	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler"
	"sigs.k8s.io/kueue/pkg/util/testing"
)

type world struct {
	client     client.Client
	cache      *schdcache.Cache
	queues     *qcache.Manager
	requeue    func(context.Context)
	cycle      func(context.Context)
	clock      *clocktesting.FakeClock
	admissions int
}

func newWorld(cl client.Client, fair *config.FairSharing) *world {
	cache := schdcache.New(cl, schdcache.WithFairSharing(fair != nil))
	queues := qcache.NewManager(cl, cache)
	clock := clocktesting.NewFakeClock(start)
	one := scheduler.New(
		queues, cache, cl, &testing.EventRecorder{}, scheduler.WithFairSharing(fair), scheduler.WithClock(nil, clock),
	)
	one.SetAdmissionRoutineWrapper(inline{})
	return &world{
		client: cl, cache: cache, queues: queues, cycle: one.ScheduleOnce, clock: clock,
		requeue: func(context.Context) {},
	}
}
