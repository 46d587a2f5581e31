// What KAI's own scheduler does with jobs in queues, without a cluster: one JSON document a line in, one a line out. It
// runs all its actions in rounds, as its integration tests do, until they change nothing; evicted jobs wait again.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"

	"go.uber.org/mock/gomock"

	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/actions/allocate"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/actions/consolidation"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/actions/preempt"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/actions/reclaim"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/common_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/pod_status"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/framework"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/test_utils"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/test_utils/jobs_fake"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/test_utils/nodes_fake"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/test_utils/tasks_fake"
)

const mostRounds = 10

type question struct {
	Nodes       map[string]int `json:"nodes"`
	Departments []queue        `json:"departments"`
	Queues      []queue        `json:"queues"`
	Jobs        []job          `json:"jobs"`
}

type queue struct {
	Name   string  `json:"name"`
	Parent string  `json:"parent"`
	Quota  float64 `json:"quota"`
	Limit  float64 `json:"limit"`
	Weight float64 `json:"weight"`
}

type job struct {
	Name     string   `json:"name"`
	Queue    string   `json:"queue"`
	Pods     int      `json:"pods"`
	GPUs     float64  `json:"gpus"`
	Priority int32    `json:"priority"`
	Age      int      `json:"age"`
	Nodes    []string `json:"nodes"`
}

type answer struct {
	Running   []string `json:"running"`
	Preempted []string `json:"preempted"`
	Rounds    int      `json:"rounds"`
}

// reporter is what a mock needs of a test.
type reporter struct{}

func (reporter) Errorf(format string, arguments ...any) { fail(fmt.Errorf(format, arguments...)) }
func (reporter) Fatalf(format string, arguments ...any) { fail(fmt.Errorf(format, arguments...)) }

func main() {
	test_utils.InitTestingInfrastructure()
	actions := []framework.Action{allocate.New(), consolidation.New(), reclaim.New(), preempt.New()}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fail(err)
		}
		text, err := json.Marshal(judge(asked, actions))
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

func judge(asked question, actions []framework.Action) answer {
	world := build(asked)
	controller := gomock.NewController(reporter{})
	preempted := map[string]bool{}
	said := answer{Running: []string{}, Preempted: []string{}}
	for said.Rounds = 0; said.Rounds < mostRounds; said.Rounds++ {
		session := test_utils.BuildSession(world, controller)
		for _, action := range actions {
			action.Execute(session)
		}
		if !apply(&world, session, preempted) {
			break
		}
	}
	for _, one := range world.Jobs {
		if one.Tasks[0].State == pod_status.Running {
			said.Running = append(said.Running, one.Name)
		}
	}
	for name := range preempted {
		said.Preempted = append(said.Preempted, name)
	}
	sort.Strings(said.Running)
	sort.Strings(said.Preempted)
	return said
}

// apply takes over what a round did. A job that only moves to other nodes is not preempted.
func apply(world *test_utils.TestTopologyBasic, session *framework.Session, preempted map[string]bool) bool {
	changed := false
	for _, one := range world.Jobs {
		found := session.PodGroupInfos[common_info.PodGroupID(one.Name)]
		for index, task := range one.Tasks {
			pod := found.GetAllPodsMap()[common_info.PodID(fmt.Sprintf("%s-%d", one.Name, index))]
			before := task.State
			switch pod.Status {
			case pod_status.Releasing:
				task.NodeName, task.State = "", pod_status.Pending
				preempted[one.Name] = true
			case pod_status.Pipelined:
				task.NodeName, task.State = "", pod_status.Pending
				if before == pod_status.Running {
					changed = true
				}
			case pod_status.Binding, pod_status.Allocated:
				task.NodeName, task.GPUGroups, task.State = pod.NodeName, pod.GPUGroups, pod_status.Running
			default:
				task.NodeName, task.GPUGroups, task.State = pod.NodeName, pod.GPUGroups, pod.Status
			}
			changed = changed || task.State != before
		}
	}
	return changed
}

func build(asked question) test_utils.TestTopologyBasic {
	world := test_utils.TestTopologyBasic{
		Name:  "forecast",
		Nodes: map[string]nodes_fake.TestNodeBasic{},
		Mocks: &test_utils.TestMock{CacheRequirements: &test_utils.CacheMocking{
			NumberOfCacheBinds: 10000, NumberOfCacheEvictions: 10000, NumberOfPipelineActions: 10000,
		}},
	}
	for name, gpus := range asked.Nodes {
		world.Nodes[name] = nodes_fake.TestNodeBasic{GPUs: gpus}
	}
	for _, one := range asked.Departments {
		world.Departments = append(world.Departments, test_utils.TestDepartmentBasic{
			Name: one.Name, DeservedGPUs: one.Quota, MaxAllowedGPUs: one.Limit,
		})
	}
	for _, one := range asked.Queues {
		world.Queues = append(world.Queues, test_utils.TestQueueBasic{
			Name: one.Name, ParentQueue: one.Parent, DeservedGPUs: one.Quota, MaxAllowedGPUs: one.Limit,
			GPUOverQuotaWeight: one.Weight,
		})
	}
	for _, one := range asked.Jobs {
		made := &jobs_fake.TestJobBasic{
			Name: one.Name, QueueName: one.Queue, RequiredGPUsPerTask: one.GPUs, Priority: one.Priority,
			JobAgeInMinutes: one.Age,
		}
		for index := 0; index < one.Pods; index++ {
			task := &tasks_fake.TestTaskBasic{State: pod_status.Pending}
			if len(one.Nodes) > 0 {
				task.State, task.NodeName = pod_status.Running, one.Nodes[index]
			}
			made.Tasks = append(made.Tasks, task)
		}
		world.Jobs = append(world.Jobs, made)
	}
	return world
}
