//! The tests, by what they are about.

mod autoscaling;
mod custom;
mod deletion;
mod deployments;
mod functions;
mod git_sources;
mod graphs;
mod hvpa;
mod hvpa_modes;
mod hvpa_sources;
mod hvpa_targets;
mod kubectl;
mod pods;
mod sessions;
mod stateful;

use anyhow::Result;
use cluster::{Cluster, Flavor};
use futures::future::BoxFuture;

pub struct Test {
    pub name: &'static str,
    /// Where the other cluster cannot do it, with the reason beside the test.
    pub only: Option<Flavor>,
    pub body: for<'a> fn(&'a Cluster) -> BoxFuture<'a, Result<()>>,
}

macro_rules! tests {
    ($($module:ident :: $name:ident $(on $flavor:ident)?),* $(,)?) => {
        pub const ALL: &[Test] = &[$(Test {
            name: concat!(stringify!($module), "::", stringify!($name)),
            only: tests!(@only $($flavor)?),
            body: |cluster| Box::pin($module::$name(cluster)),
        }),*];
    };
    (@only) => { None };
    (@only $flavor:ident) => { Some(Flavor::$flavor) };
}

tests! {
    deployments::three_web_servers_answer_on_their_addresses,
    deployments::a_rollout_replaces_pods_and_can_be_undone,
    deployments::a_bad_rollout_keeps_the_old_pods,
    deployments::scale_up_and_down,
    deployments::a_killed_pod_is_replaced,
    stateful::pods_come_in_order_and_go_in_reverse,
    pods::environment_and_volumes_are_as_the_manifest_says,
    pods::a_crash_loop_is_told_and_logged,
    pods::init_containers_run_first_and_exit_codes_are_kept,
    pods::readiness_follows_the_probe,
    pods::a_failing_liveness_probe_restarts,
    pods::termination_waits_for_the_process,
    pods::a_container_without_a_command_is_refused,
    sessions::a_command_runs_in_the_containers_surroundings,
    sessions::what_cannot_be_run_is_told,
    sessions::a_terminal_has_the_clients_size,
    sessions::a_command_ends_with_its_client_and_with_its_pod,
    sessions::files_are_copied_both_ways,
    sessions::ports_are_forwarded,
    sessions::who_attaches_sees_and_is_heard,
    sessions::clients_other_than_kubectl_have_sessions,
    deletion::background_foreground_and_orphan,
    deletion::a_namespace_takes_its_contents_along,
    custom::a_custom_resource_scales_through_kubectl,
    kubectl::everyday_commands,
    kubectl::logs_follow_and_watch_stream,
    // a real cluster needs metrics-server for it, which is a suite of its own
    kubectl::top_shows_usage on Embedded,
    autoscaling::load_raises_replicas_and_silence_lowers_them on Embedded,
    functions::handlers_answer_calls,
    functions::dependencies_are_installed_at_start,
    functions::external_scaling_follows_the_count,
    functions::a_users_autoscaler_scales_the_function,
    functions::built_in_scaling_comes_and_goes,
    functions::equal_bounds_are_a_number,
    functions::zero_pauses_built_in_scaling,
    functions::two_autoscalers_are_reported,
    functions::what_is_done_by_hand_is_undone,
    functions::bad_manifests_are_refused_by_the_api,
    functions::what_only_the_controller_can_see_is_a_condition,
    functions::built_in_scaling_follows_the_load,
    git_sources::a_branch_is_followed,
    git_sources::a_password_opens_a_repository_over_http,
    git_sources::a_key_opens_a_repository_over_ssh,
    graphs::an_instance_becomes_its_resources_scales_and_goes_in_order,
    graphs::a_set_grows_rolls_out_and_shrinks,
    graphs::deleting_a_generated_kind_takes_its_instances_along,
    graphs::invalid_definitions_are_refused_with_their_path,
    hvpa::a_busy_workload_gets_more_and_larger_pods_and_then_rest,
    hvpa::with_everything_off_only_the_status_is_written,
    hvpa::a_second_autoscaler_is_told_and_not_fought,
    hvpa_modes::hpa_preferred_grows_sizes_at_the_most_replicas,
    hvpa_modes::hpa_biased_grows_replicas_first,
    hvpa_modes::vpa_biased_grows_sizes_first,
    hvpa_modes::mixed_grows_what_is_preferred_first,
    hvpa_sources::an_autoscaler_that_is_switched_off_lends_its_metrics,
    hvpa_targets::a_function_gets_more_and_larger_pods,
    hvpa_targets::an_instance_of_a_graph_gets_more_pods_and_no_larger_ones,
}
