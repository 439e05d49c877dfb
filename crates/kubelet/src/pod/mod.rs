//! Pods: the planner ([`machine`]), its status ([`status`]), and the task that carries the plan out ([`actor`]).

pub mod actor;
pub mod container;
pub mod disk;
pub mod machine;
mod publish;
pub mod recover;
mod runner;
pub mod status;

/// Reasons in waiting states and events. Those of a kubelet are spelled as it spells them.
pub mod reasons {
    pub const CONTAINER_CREATING: &str = "ContainerCreating";
    pub const POD_INITIALIZING: &str = "PodInitializing";
    pub const CRASH_LOOP: &str = "CrashLoopBackOff";
    pub const CONFIG_ERROR: &str = "CreateContainerConfigError";
    /// Ours: there is no command, only an image.
    pub const IMAGE_NOT_RUNNABLE: &str = "ImageNotRunnable";
    /// Ours: a probe of a kind that the process node does not run.
    pub const PROBE_NOT_SUPPORTED: &str = "ProbeNotSupported";

    pub const COMPLETED: &str = "Completed";
    pub const ERROR: &str = "Error";
    pub const OOM_KILLED: &str = "OOMKilled";
    pub const START_ERROR: &str = "StartError";
    pub const STATUS_UNKNOWN: &str = "ContainerStatusUnknown";
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";

    pub const STARTED: &str = "Started";
    pub const KILLING: &str = "Killing";
    pub const BACK_OFF: &str = "BackOff";
    pub const UNHEALTHY: &str = "Unhealthy";
    pub const FAILED: &str = "Failed";
    pub const FAILED_MOUNT: &str = "FailedMount";
    pub const FAILED_POST_START_HOOK: &str = "FailedPostStartHook";
    pub const FAILED_PRE_STOP_HOOK: &str = "FailedPreStopHook";
}
