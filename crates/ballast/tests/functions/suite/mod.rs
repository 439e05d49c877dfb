//! The tests, by what they are about.

mod asleep_and_awake;
mod autoscaler;
mod faults;
mod kyma;
mod metrics;
mod queue;
mod visible;

use anyhow::Result;
use futures::future::BoxFuture;

use crate::world::{Nodes, World};

pub struct Test {
    pub name: &'static str,
    /// Where the other number of nodes has no meaning.
    pub only: Option<Nodes>,
    pub body: for<'a> fn(&'a mut World) -> BoxFuture<'a, Result<()>>,
}

macro_rules! tests {
    ($($module:ident :: $name:ident $(on $nodes:ident)?),* $(,)?) => {
        pub const ALL: &[Test] = &[$(Test {
            name: concat!(stringify!($module), "::", stringify!($name)),
            only: tests!(@only $($nodes)?),
            body: |world| Box::pin($module::$name(world)),
        }),*];
    };
    (@only) => { None };
    (@only $nodes:ident) => { Some(Nodes::$nodes) };
}

tests! {
    asleep_and_awake::a_call_wakes_and_silence_puts_to_sleep,
    asleep_and_awake::a_schedule_wakes,
    asleep_and_awake::dependencies_wake_first,
    asleep_and_awake::a_dependency_that_is_no_function_is_waited_for on One,
    asleep_and_awake::an_event_wakes_its_subscribers,
    asleep_and_awake::below_the_minimum_it_is_raised,
    asleep_and_awake::a_long_call_keeps_awake,
    metrics::metrics_raise_and_lower,
    metrics::metrics_veto_zero_until_they_agree,
    autoscaler::an_autoscaler_is_told_and_not_fought,
    visible::bad_annotations_are_told_and_the_function_is_served,
    visible::every_node_says_why,
    visible::private_is_for_pods_and_for_those_a_trusted_proxy_names on One,
    visible::debug_endpoints_answer_as_the_guide_says,
    queue::a_result_can_be_read,
    queue::a_call_that_fails_is_tried_again_and_given_up,
    queue::no_more_than_the_limit_are_under_way,
    queue::two_namespaces_share_servers_but_nothing_else on Three,
    kyma::a_call_wakes_a_function_by_its_scale,
    kyma::one_that_scales_itself_is_refused,
    faults::no_accepted_call_is_lost_with_the_master on Three,
    faults::another_node_follows_a_killed_master on Three,
    faults::a_paused_master_cannot_write on Three,
    faults::another_node_follows_a_killed_scraper on Three,
    faults::calls_go_on_without_a_gateway_node on Three,
    faults::one_of_three_nats_servers_may_die on Three,
    faults::a_node_that_is_cut_off_is_replaced_and_comes_back on Three,
    faults::a_node_that_hears_nothing_of_the_cluster_says_so on Three,
    faults::a_pod_may_die_during_a_call,
    faults::a_call_without_a_body_outlives_its_pod,
}
