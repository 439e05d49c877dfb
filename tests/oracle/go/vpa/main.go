// The oracle of the recommender: the Vertical Pod Autoscaler's own model and logic, driven by JSON.
//
// It reads histories from standard input, plays each into a cluster state of its own, and prints what the recommender
// makes of it with the settings that it has by default.
//
// Run from tools/vpa, whose go.mod pins the version: go run ../../tests/oracle/go/vpa/*.go
package main

import (
	"encoding/json"
	"log"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	vpa_types "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/config"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/routines"
)

// In the order in which it happened.
type event struct {
	// Milliseconds since the epoch.
	At        int64  `json:"at"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	// Thousandths of a core, bytes.
	CPU    *int64 `json:"cpu"`
	Memory *int64 `json:"memory"`
	// Killed for memory, with this request.
	Killed *int64 `json:"killed"`
}

type amounts struct {
	CPU    int64 `json:"cpu"`
	Memory int64 `json:"memory"`
}

type recommendation struct {
	Target amounts `json:"target"`
	Lower  amounts `json:"lower"`
	Upper  amounts `json:"upper"`
}

func main() {
	var histories [][]event
	if err := json.NewDecoder(os.Stdin).Decode(&histories); err != nil {
		log.Fatal(err)
	}
	answers := make([]map[string]recommendation, 0, len(histories))
	for _, history := range histories {
		answers = append(answers, recommend(history))
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		log.Fatal(err)
	}
}

func recommend(history []event) map[string]recommendation {
	cluster := model.NewClusterState(time.Hour)
	object := &vpa_types.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	pods := labels.Set{"app": "web"}
	if err := cluster.AddOrUpdateVpa(object, labels.SelectorFromSet(pods)); err != nil {
		log.Fatal(err)
	}
	for _, one := range history {
		play(cluster, pods, one)
	}
	vpa := cluster.VPAs()[model.VpaID{Namespace: "shop", VpaName: "web"}]
	found := recommender().GetRecommendedPodResources(routines.GetContainerNameToAggregateStateMap(vpa))
	answer := map[string]recommendation{}
	for name, one := range found {
		answer[name] = recommendation{shown(one.Target), shown(one.LowerBound), shown(one.UpperBound)}
	}
	return answer
}

// What is discarded is no error: both sides are to discard the same.
func play(cluster model.ClusterState, pods labels.Set, one event) {
	pod := model.PodID{Namespace: "shop", PodName: one.Pod}
	container := model.ContainerID{PodID: pod, ContainerName: one.Container}
	cluster.AddOrUpdatePod(pod, pods, corev1.PodRunning)
	if err := cluster.AddOrUpdateContainer(container, model.Resources{}); err != nil {
		log.Fatal(err)
	}
	at := time.UnixMilli(one.At)
	sample := func(resource model.ResourceName, usage *int64) {
		if usage != nil {
			_ = cluster.AddSample(&model.ContainerUsageSampleWithKey{
				ContainerUsageSample: model.ContainerUsageSample{
					MeasureStart: at, Usage: model.ResourceAmount(*usage), Resource: resource,
				},
				Container: container,
			})
		}
	}
	sample(model.ResourceCPU, one.CPU)
	sample(model.ResourceMemory, one.Memory)
	if one.Killed != nil {
		_ = cluster.RecordOOM(container, at, model.ResourceAmount(*one.Killed))
	}
}

func recommender() logic.PodResourceRecommender {
	usual := config.DefaultRecommenderConfig()
	return logic.CreatePodResourceRecommender(logic.RecommendationConfig{
		SafetyMarginFraction:       usual.SafetyMarginFraction,
		PodMinCPUMillicores:        usual.PodMinCPUMillicores,
		PodMinMemoryMb:             usual.PodMinMemoryMb,
		TargetCPUPercentile:        usual.TargetCPUPercentile,
		LowerBoundCPUPercentile:    usual.LowerBoundCPUPercentile,
		UpperBoundCPUPercentile:    usual.UpperBoundCPUPercentile,
		ConfidenceIntervalCPU:      usual.ConfidenceIntervalCPU,
		TargetMemoryPercentile:     usual.TargetMemoryPercentile,
		LowerBoundMemoryPercentile: usual.LowerBoundMemoryPercentile,
		UpperBoundMemoryPercentile: usual.UpperBoundMemoryPercentile,
		ConfidenceIntervalMemory:   usual.ConfidenceIntervalMemory,
	})
}

func shown(resources model.Resources) amounts {
	return amounts{int64(resources[model.ResourceCPU]), int64(resources[model.ResourceMemory])}
}
