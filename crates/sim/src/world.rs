//! A fluid model of pods that serve a load: no single requests, only rates, so a day takes milliseconds.

use std::collections::VecDeque;

use decide::recommender::amount::Resource;

use crate::{
    random::{Stream, unit},
    scenario::Pods,
};

/// A pod that fails to start waits this long before it tries again.
const RESTART_DELAY: f64 = 10.0;

#[derive(Clone, Debug)]
pub struct World {
    pods: Vec<Pod>,
    n_created: u64,
    /// What pods are made with now.
    size: Size,
    /// Demand that waits, oldest first: when it came and how much of it.
    backlog: VecDeque<(f64, f64)>,
    backlog_total: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pod {
    pub id: u64,
    pub created: f64,
    pub ready_at: f64,
    pub size: Size,
    /// When it got, or gets, the size that pods are made with now.
    pub sized_at: f64,
}

/// Requests: thousandths of a core, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub cpu: u64,
    pub memory: u64,
}

/// What happened within one step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    pub arrived: f64,
    pub served: f64,
    /// Demand that nobody was there for in time.
    pub missed: f64,
    /// What the ready pods could serve a second.
    pub capacity: f64,
}

impl World {
    pub fn new(model: &Pods, seed: u64) -> World {
        let mut world = World {
            pods: Vec::new(),
            n_created: 0,
            size: model.size(),
            backlog: VecDeque::new(),
            backlog_total: 0.0,
        };
        world.scale(model, seed, 0.0, model.initial);
        // The first pods are there when the story begins.
        for pod in &mut world.pods {
            (pod.created, pod.ready_at, pod.sized_at) =
                (f64::NEG_INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY);
        }
        world
    }

    pub fn pods(&self) -> &[Pod] {
        &self.pods
    }

    pub fn n_ready(&self, t: f64) -> usize {
        self.pods.iter().filter(|pod| pod.ready_at <= t).count()
    }

    /// Of the pod that has been ready for longest; none if it always was.
    pub fn ready_since(&self, t: f64) -> Option<f64> {
        self.pods
            .iter()
            .map(|pod| pod.ready_at)
            .filter(|at| *at <= t)
            .reduce(f64::min)
            .filter(|at| at.is_finite())
    }

    pub fn backlog(&self) -> f64 {
        self.backlog_total
    }

    pub fn size(&self) -> Size {
        self.size
    }

    /// Cores requested by all pods, in thousandths.
    pub fn requested_cpu(&self) -> u64 {
        self.pods.iter().map(|pod| pod.size.cpu).sum()
    }

    pub fn capacity(&self, model: &Pods, t: f64) -> f64 {
        self.pods.iter().filter(|pod| pod.ready_at <= t).map(|pod| pod.capacity(model)).sum()
    }

    /// Adds pods, or removes the newest, those that are not ready yet first.
    pub fn scale(&mut self, model: &Pods, seed: u64, t: f64, replicas: usize) {
        while self.pods.len() < replicas {
            self.start(model, seed, t);
        }
        while self.pods.len() > replicas {
            let unready = self.pods.iter().rposition(|pod| pod.ready_at > t);
            self.pods.remove(unready.unwrap_or(self.pods.len() - 1));
        }
    }

    fn start(&mut self, model: &Pods, seed: u64, t: f64) {
        let id = self.n_created;
        self.n_created += 1;
        let mut ready_at = t + model.start_up.0;
        // At most a few times, or a certain failure would never end.
        for attempt in 0..8 {
            if unit(seed, Stream::FailedStart, id * 8 + attempt) >= model.start_failure {
                break;
            }
            ready_at += RESTART_DELAY + model.start_up.0;
        }
        self.pods.push(Pod { id, created: t, ready_at, size: self.size, sized_at: t });
    }

    /// The oldest ready pods crash and start again.
    pub fn crash(&mut self, model: &Pods, t: f64, n: usize) -> usize {
        let mut crashed = 0;
        for pod in self.pods.iter_mut().filter(|pod| pod.ready_at <= t).take(n) {
            pod.ready_at = t + RESTART_DELAY + model.start_up.0;
            crashed += 1;
        }
        crashed
    }

    pub fn resize(&mut self, model: &Pods, t: f64, size: Size) {
        self.size = size;
        if let Some(length) = model.resize {
            for pod in &mut self.pods {
                pod.sized_at = if pod.size == size { pod.sized_at } else { t + length.0 };
            }
        }
    }

    /// Pods whose time of resizing is over run at the new size.
    pub fn finish_resizes(&mut self, t: f64) {
        for pod in self.pods.iter_mut().filter(|pod| pod.sized_at <= t) {
            pod.size = self.size;
        }
    }

    /// When all pods ran, or will run, as many and as large as they are meant to be.
    pub fn settled_at(&self) -> f64 {
        self.pods.iter().map(|pod| pod.ready_at.max(pod.sized_at)).fold(f64::NEG_INFINITY, f64::max)
    }

    pub fn is_rolling(&self) -> bool {
        self.pods.iter().any(|pod| pod.size != self.size)
    }

    /// A rolling update with a quarter more pods: new ones start, and each that gets ready takes an old one's place.
    pub fn roll(&mut self, model: &Pods, seed: u64, t: f64, replicas: usize) {
        let outdated = self.pods.iter().filter(|pod| pod.size != self.size).count();
        if outdated == 0 {
            return;
        }
        let ready_new = self.pods.iter().filter(|pod| pod.size == self.size && pod.ready_at <= t).count();
        let keep_old = replicas.saturating_sub(ready_new);
        for _ in keep_old..outdated {
            if let Some(old) = self.pods.iter().position(|pod| pod.size != self.size) {
                self.pods.remove(old);
            }
        }
        let new = self.pods.iter().filter(|pod| pod.size == self.size).count();
        let room = (replicas + replicas.div_ceil(4)).saturating_sub(self.pods.len());
        for _ in 0..room.min(replicas.saturating_sub(new)) {
            self.start(model, seed, t);
        }
    }

    /// Serves `load` for `dt` seconds, what waits longest first.
    pub fn step(&mut self, model: &Pods, t: f64, dt: f64, load: f64) -> Step {
        let capacity = self.capacity(model, t);
        let arrived = load * dt;
        let mut room = capacity * dt;
        let mut served = 0.0;
        while room > 0.0
            && let Some((_, waiting)) = self.backlog.front_mut()
        {
            let taken = waiting.min(room);
            *waiting -= taken;
            room -= taken;
            served += taken;
            if *waiting <= 0.0 {
                self.backlog.pop_front();
            }
        }
        let taken = arrived.min(room);
        served += taken;
        let left = arrived - taken;
        if left > 0.0 {
            self.backlog.push_back((t, left));
        }
        let mut missed = 0.0;
        if let Some(patience) = model.patience {
            while let Some(&(came, waiting)) = self.backlog.front() {
                if came + patience.0 > t {
                    break;
                }
                missed += waiting;
                self.backlog.pop_front();
            }
        }
        // Summed anew when it is short, so that rounding does not add up over a day.
        self.backlog_total = match self.backlog.len() {
            0..=64 => self.backlog.iter().map(|(_, waiting)| waiting).sum(),
            _ => (self.backlog_total + arrived - served - missed).max(0.0),
        };
        Step { arrived, served, missed, capacity }
    }
}

impl Size {
    /// What differs, for a person.
    pub fn change_from(self, before: Size) -> String {
        let cpu = (self.cpu != before.cpu).then(|| Resource::Cpu.words(self.cpu));
        let memory = (self.memory != before.memory).then(|| Resource::Memory.words(self.memory));
        cpu.into_iter().chain(memory).collect::<Vec<_>>().join(" ")
    }
}

impl Pod {
    /// More cores serve more.
    pub fn capacity(&self, model: &Pods) -> f64 {
        let base = model.size().cpu;
        let share = if base == 0 { 1.0 } else { self.size.cpu as f64 / base as f64 };
        model.capacity * share
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Seconds;

    fn model(start_up: f64, capacity: f64, patience: Option<f64>) -> Pods {
        Pods {
            start_up: Seconds(start_up),
            capacity,
            patience: patience.map(Seconds),
            initial: 0,
            ..Pods::default()
        }
    }

    #[test]
    fn pods_start_serve_and_leave() {
        let pods = model(10.0, 5.0, Some(20.0));
        let mut world = World::new(&pods, 0);
        world.scale(&pods, 0, 0.0, 2);
        assert_eq!(
            world.step(&pods, 0.0, 1.0, 8.0),
            Step { arrived: 8.0, served: 0.0, missed: 0.0, capacity: 0.0 }
        );
        // Both are ready after 10 s and serve what waited first.
        assert_eq!(
            world.step(&pods, 10.0, 1.0, 8.0),
            Step { arrived: 8.0, served: 10.0, missed: 0.0, capacity: 10.0 }
        );
        assert_eq!(world.backlog(), 6.0);
        assert_eq!(world.crash(&pods, 11.0, 1), 1);
        world.scale(&pods, 0, 11.0, 1);
        assert_eq!((world.pods().len(), world.n_ready(11.0)), (1, 1), "the one that is not ready goes first");
        world.scale(&pods, 0, 12.0, 0);
        // What came at 10 s gives up 20 s later.
        assert_eq!(world.step(&pods, 30.0, 1.0, 0.0).missed, 6.0);
    }

    #[test]
    fn a_rollout_keeps_its_capacity() {
        let pods = model(10.0, 5.0, None);
        let mut world = World::new(&Pods { initial: 4, ..pods.clone() }, 0);
        let bigger = Size { cpu: pods.size().cpu * 2, ..pods.size() };
        world.resize(&pods, 0.0, bigger);
        let mut seconds = 0;
        while world.is_rolling() {
            world.roll(&pods, 0, f64::from(seconds), 4);
            assert!(world.n_ready(f64::from(seconds)) >= 4 && world.pods().len() <= 5);
            seconds += 1;
            assert!(seconds < 1000, "the rollout never ends");
        }
        assert_eq!(world.pods().len(), 4);
        assert_eq!(world.capacity(&pods, f64::from(seconds)), 40.0, "twice the cores serve twice as much");
    }

    #[test]
    fn pods_are_resized_in_place() {
        let pods = Pods { initial: 2, resize: Some(Seconds(5.0)), ..model(10.0, 5.0, None) };
        let mut world = World::new(&pods, 0);
        world.resize(&pods, 100.0, Size { cpu: pods.size().cpu * 2, ..pods.size() });
        world.finish_resizes(104.0);
        assert!(world.is_rolling());
        assert_eq!((world.capacity(&pods, 104.0), world.settled_at()), (10.0, 105.0));
        world.finish_resizes(105.0);
        assert!(!world.is_rolling());
        assert_eq!((world.pods().len(), world.capacity(&pods, 105.0)), (2, 20.0));
    }

    proptest! {
        #![proptest_config(repeatable::cases(256))]

        #[test]
        fn nothing_is_served_that_did_not_come(
            loads in prop::collection::vec(0.0..1000.0f64, 1..80),
            scales in prop::collection::vec(0..12usize, 1..20),
            patience in prop::option::of(0.0..30.0f64),
            start_up in 0.0..20.0f64,
        ) {
            let pods = model(start_up, 50.0, patience);
            let mut world = World::new(&pods, 9);
            let (mut arrived, mut served, mut missed) = (0.0, 0.0, 0.0);
            for (idx, load) in loads.iter().enumerate() {
                let t = idx as f64;
                world.scale(&pods, 9, t, scales[idx % scales.len()]);
                let step = world.step(&pods, t, 1.0, *load);
                prop_assert!(step.served <= step.capacity + 1e-6 && step.missed >= 0.0);
                arrived += step.arrived;
                served += step.served;
                missed += step.missed;
                prop_assert!((arrived - served - missed - world.backlog()).abs() < 1e-6 * (1.0 + arrived));
            }
        }
    }
}
