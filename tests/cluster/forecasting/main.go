// What Kueue's own scheduler does with queues and workloads, without a cluster: one JSON document a line in, one a line
// out. It runs scheduling cycles until none of them changes anything. Evicted workloads lose their quota at once and
// are queued again, as Kueue's controller does it. What differs between the versions of Kueue is in the files named by
// them.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/util/testing"
	"sigs.k8s.io/kueue/pkg/workload"
)

// A cycle that changes nothing may still move on to the next flavor of a workload, or to the next workload of a queue.
const idleCycles, mostCycles = 8, 300

type question struct {
	Flavors       []kueue.ResourceFlavor `json:"flavors"`
	Cohorts       []kueue.Cohort         `json:"cohorts"`
	ClusterQueues []kueue.ClusterQueue   `json:"clusterQueues"`
	LocalQueues   []kueue.LocalQueue     `json:"localQueues"`
	Workloads     []kueue.Workload       `json:"workloads"`
	FairSharing   *config.FairSharing    `json:"fairSharing"`
}

// Admitted is by workload, pod set and resource; Preempted has the UID of the preemptor and the reason by workload, in
// the first preemption of it.
type answer struct {
	Admitted  map[string]map[string]map[string]string `json:"admitted"`
	Counts    map[string]map[string]int32             `json:"counts"`
	Preempted map[string]preemption                   `json:"preempted"`
	Cycles    int                                     `json:"cycles"`
	Settled   bool                                    `json:"settled"`
	Crash     string                                  `json:"crash"`
}

type preemption struct {
	By     string `json:"by"`
	Reason string `json:"reason"`
	Cycle  int    `json:"cycle"`
}

// Start is later than the workloads of all questions; a cycle takes a second.
var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

type inline struct{}

func (inline) Run(do func()) { do() }

func main() {
	log.SetLogger(logr.Discard())
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<28)
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

// judge answers with a crash where Kueue has one: 0.16 does for preemption with fair sharing outside of a cohort.
func judge(asked question) (said *answer, err error) {
	defer func() {
		if crash := recover(); crash != nil {
			said, err = &answer{Crash: fmt.Sprint(crash)}, nil
		}
	}()
	ctx := log.IntoContext(context.Background(), logr.Discard())
	var lock sync.Mutex // preemptions are issued at the same time
	patched := map[types.NamespacedName]bool{}
	built := testing.NewClientBuilder().
		WithLists(&kueue.WorkloadList{Items: asked.Workloads}, &kueue.LocalQueueList{Items: asked.LocalQueues}).
		WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ml"}}).
		WithStatusSubresource(&kueue.Workload{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(
				ctx context.Context, cl client.Client, name string, obj client.Object, patch client.Patch,
				opts ...client.SubResourcePatchOption,
			) error {
				lock.Lock()
				defer lock.Unlock()
				patched[client.ObjectKeyFromObject(obj)] = true
				return testing.TreatSSAAsStrategicMerge(ctx, cl, name, obj, patch, opts...)
			},
		}).Build()
	world := newWorld(built, asked.FairSharing)
	if err := world.fill(ctx, &asked); err != nil {
		return nil, err
	}
	said = &answer{Preempted: map[string]preemption{}}
	longest := map[kueue.LocalQueueName]int{}
	most := idleCycles
	for i := range asked.Workloads {
		name := asked.Workloads[i].Spec.QueueName
		longest[name]++
		most = max(most, idleCycles+longest[name])
	}
	for idle := 0; said.Cycles < mostCycles; said.Cycles++ {
		world.requeue(ctx)
		if len(world.queues.Dump()) == 0 || idle >= most {
			said.Settled = true
			break
		}
		clear(patched)
		world.clock.Step(time.Second)
		before := world.admissions
		world.cycle(ctx)
		evicted, err := world.release(ctx, patched, said)
		if err != nil {
			return nil, err
		}
		idle++
		if evicted || world.admissions != before {
			idle = 0
		}
	}
	return said, world.report(ctx, said)
}

// release does what the controller of workloads does with the evicted ones among those that were patched.
func (w *world) release(ctx context.Context, patched map[types.NamespacedName]bool, said *answer) (bool, error) {
	names := make([]types.NamespacedName, 0, len(patched))
	for name := range patched {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool { return names[i].Name < names[j].Name })
	evicted := false
	for _, name := range names {
		var found kueue.Workload
		if err := w.client.Get(ctx, name, &found); err != nil {
			return false, err
		}
		if !workload.HasQuotaReservation(&found) {
			continue
		}
		if !apimeta.IsStatusConditionTrue(found.Status.Conditions, kueue.WorkloadEvicted) {
			w.admissions++
			w.queues.DeleteWorkload(logr.Discard(), workload.Key(&found))
			continue
		}
		evicted = true
		if why := apimeta.FindStatusCondition(found.Status.Conditions, kueue.WorkloadPreempted); why != nil {
			if _, ok := said.Preempted[found.Name]; !ok {
				var by string
				_, _ = fmt.Sscanf(why.Message, "Preempted to accommodate a workload (UID: %s", &by)
				if len(by) > 0 {
					by = by[:len(by)-1]
				}
				said.Preempted[found.Name] = preemption{By: by, Reason: why.Reason, Cycle: said.Cycles}
			}
		}
		workload.UnsetQuotaReservationWithCondition(&found, "Pending", "evicted", w.clock.Now())
		found.Status.Conditions = without(found.Status.Conditions, kueue.WorkloadEvicted, kueue.WorkloadPreempted)
		if err := w.client.Status().Update(ctx, &found); err != nil {
			return false, err
		}
		var failed error
		key := workload.Key(&found)
		w.queues.QueueAssociatedInadmissibleWorkloadsAfter(ctx, key, func() {
			if err := w.cache.DeleteWorkload(logr.Discard(), key); err != nil {
				failed = err
			}
			if err := w.queues.AddOrUpdateWorkloadWithoutLock(logr.Discard(), &found); err != nil {
				failed = err
			}
		})
		if failed != nil {
			return false, failed
		}
	}
	return evicted, nil
}

func without(conditions []metav1.Condition, names ...string) []metav1.Condition {
	left := []metav1.Condition{}
	for _, one := range conditions {
		gone := false
		for _, name := range names {
			gone = gone || one.Type == name
		}
		if !gone {
			left = append(left, one)
		}
	}
	return left
}

func (w *world) fill(ctx context.Context, asked *question) error {
	for i := range asked.Flavors {
		w.cache.AddOrUpdateResourceFlavor(logr.Discard(), &asked.Flavors[i])
	}
	for i := range asked.Cohorts {
		if err := w.cache.AddOrUpdateCohort(&asked.Cohorts[i]); err != nil {
			return err
		}
		w.queues.AddOrUpdateCohort(ctx, &asked.Cohorts[i])
	}
	for i := range asked.LocalQueues {
		if err := w.queues.AddLocalQueue(ctx, &asked.LocalQueues[i]); err != nil {
			return err
		}
	}
	for i := range asked.ClusterQueues {
		if err := w.cache.AddClusterQueue(ctx, &asked.ClusterQueues[i]); err != nil {
			return err
		}
		if err := w.queues.AddClusterQueue(ctx, &asked.ClusterQueues[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) report(ctx context.Context, said *answer) error {
	var found kueue.WorkloadList
	if err := w.client.List(ctx, &found); err != nil {
		return err
	}
	said.Admitted = map[string]map[string]map[string]string{}
	said.Counts = map[string]map[string]int32{}
	for i := range found.Items {
		one := &found.Items[i]
		if !workload.HasQuotaReservation(one) {
			continue
		}
		sets, counts := map[string]map[string]string{}, map[string]int32{}
		for _, set := range one.Status.Admission.PodSetAssignments {
			flavors := map[string]string{}
			for name, flavor := range set.Flavors {
				flavors[string(name)] = string(flavor)
			}
			sets[string(set.Name)] = flavors
			if set.Count != nil {
				counts[string(set.Name)] = *set.Count
			}
		}
		said.Admitted[one.Name], said.Counts[one.Name] = sets, counts
	}
	return nil
}
