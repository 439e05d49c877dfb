//! The tests, by what they are about.

mod asleep_and_awake;
mod autoscaler;
mod examples;
mod faults;
mod kyma;
mod log;
mod metrics;
mod permissions;
mod queue;
mod restart;
mod routes;
mod schedule;
mod stateful;
mod visible;

use anyhow::Result;
use cluster::Flavor;
use futures::future::BoxFuture;

use crate::world::{Nodes, World};

pub struct Test {
    pub name: &'static str,
    /// Where the other number of nodes has no meaning.
    pub on: Option<Nodes>,
    /// Where the other API does not know of what is tested, or adds nothing to it but time.
    pub of: Option<Flavor>,
    pub body: for<'a> fn(&'a mut World) -> BoxFuture<'a, Result<()>>,
}

macro_rules! tests {
    ($($module:ident :: $name:ident $(on $nodes:ident)? $(of $flavor:ident)?),* $(,)?) => {
        pub const ALL: &[Test] = &[$(Test {
            name: concat!(stringify!($module), "::", stringify!($name)),
            on: tests!(@only Nodes $($nodes)?),
            of: tests!(@only Flavor $($flavor)?),
            body: |world| Box::pin($module::$name(world)),
        }),*];
    };
    (@only $of:ident) => { None };
    (@only $of:ident $one:ident) => { Some($of::$one) };
}

tests! {
    asleep_and_awake::a_call_wakes_and_silence_puts_to_sleep,
    asleep_and_awake::a_schedule_wakes,
    asleep_and_awake::dependencies_wake_first,
    asleep_and_awake::a_dependency_that_is_no_function_is_waited_for on One,
    asleep_and_awake::an_event_wakes_its_subscribers,
    asleep_and_awake::below_the_minimum_it_is_raised,
    asleep_and_awake::a_call_raises_from_below_the_minimum,
    asleep_and_awake::a_long_call_keeps_awake,
    schedule::a_wake_up_comes_at_its_time_and_lasts_its_timeout on One of Embedded,
    stateful::a_stateful_set_wakes_grows_and_sleeps,
    examples::calls_latency_and_a_queue_raise,
    metrics::metrics_raise_and_lower,
    metrics::metrics_veto_zero_until_they_agree,
    autoscaler::an_autoscaler_is_told_and_not_fought,
    autoscaler::a_person_who_scales_is_named_and_overruled_or_left,
    visible::bad_annotations_are_told_and_the_function_is_served,
    visible::every_node_says_why,
    visible::private_is_for_pods_and_for_those_a_trusted_proxy_names on One,
    visible::debug_endpoints_answer_as_the_guide_says,
    queue::a_result_can_be_read,
    queue::a_call_that_fails_is_tried_again_and_given_up,
    queue::no_more_than_the_limit_are_under_way,
    routes::a_callback_ends_a_call_and_the_dead_are_made_again,
    routes::wake_routes_wake_and_the_stream_tells,
    log::it_says_what_was_decided_and_what_cannot_be_used,
    queue::two_namespaces_share_servers_but_nothing_else on Three,
    kyma::a_call_wakes_a_function_by_its_scale,
    kyma::one_that_scales_itself_is_refused,
    permissions::the_manifest_is_enough_and_what_is_missing_is_named on One,
    permissions::a_node_that_takes_calls_writes_nothing on Three,
    faults::no_accepted_call_is_lost_with_the_master on Three,
    faults::no_pod_gets_too_many_when_the_master_is_killed on Three,
    faults::another_node_follows_a_killed_master on Three,
    faults::a_paused_master_cannot_write on Three,
    faults::another_node_follows_a_killed_scraper on Three,
    faults::calls_go_on_without_a_gateway_node on Three,
    faults::one_of_three_nats_servers_may_die on Three,
    faults::a_node_that_is_cut_off_is_replaced_and_comes_back on Three,
    restart::no_accepted_call_is_lost_with_the_only_node on One,
    faults::a_node_that_hears_nothing_of_the_cluster_says_so on Three,
    faults::a_pod_may_die_during_a_call,
    faults::a_call_without_a_body_outlives_its_pod,
}
