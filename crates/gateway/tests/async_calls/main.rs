//! Asynchronous calls from the client's request to the pod's answer, on stores in memory and in a file.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod calls;
mod flaky;
mod limits;
mod world;

use std::sync::Arc;

use store::{Embedded, Limits, Shared};
use tempfile::TempDir;

/// Each body as a test of each store; the directory lasts as long as the test.
macro_rules! on_both {
    ($($module:ident::{$($body:ident),* $(,)?}),* $(,)?) => {
        on_both!(@store memory $($module $($body)*;)*);
        on_both!(@store redb $($module $($body)*;)*);
    };
    (@store $store:ident $($module:ident $($body:ident)*;)*) => {
        mod $store {
            $($(
                #[tokio::test(flavor = "multi_thread")]
                async fn $body() {
                    let (store, _directory) = super::$store();
                    super::$module::$body(store).await;
                }
            )*)*
        }
    };
}

on_both! {
    calls::{
        a_call_is_made_and_its_result_kept,
        failures_are_tried_again,
        what_fails_to_the_end_is_dead,
        silence_is_tried_again,
        refused_connections_are_tried_again,
        functions_call_back,
        callbacks_may_come_to_any_node,
        what_cannot_be_taken_is_refused,
        what_a_lost_node_held_is_made_again,
        large_answers_are_not_kept,
        private_calls_are_not_told_of,
        dead_calls_of_private_paths_are_not_told_of,
        dead_calls_come_in_pages,
        callbacks_of_private_calls_need_the_right,
        visibility_is_looked_at_again_before_a_call_is_made,
    },
    flaky::{
        without_the_store_nothing_is_accepted,
        long_calls_keep_their_lease,
        an_answer_outlives_an_outage_of_the_store,
        a_function_that_calls_back_keeps_its_call,
    },
    limits::{
        no_more_calls_than_allowed,
        the_limit_holds_over_a_change_of_master,
        no_pod_gets_too_many_over_a_change_of_master,
        room_left_by_the_old_master_is_used,
        waiting_calls_keep_a_function_awake,
        gauges_tell_what_waits,
    },
}

fn memory() -> (Shared, Option<TempDir>) {
    (Arc::new(Embedded::memory(Limits::default()).unwrap()), None)
}

fn redb() -> (Shared, Option<TempDir>) {
    let directory = TempDir::with_prefix("ballast-async-").unwrap();
    let store = Embedded::file(directory.path().join("store.redb"), Limits::default()).unwrap();
    (Arc::new(store), Some(directory))
}
