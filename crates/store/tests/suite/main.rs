//! One suite for every place: what holds in memory holds in a file and on NATS.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../shared/eventually.rs"]
mod eventually;
mod home;
mod keys;
mod model;
mod queues;
mod restart;

/// Each body as a test of each place.
macro_rules! everywhere {
    ($($module:ident::{$($body:ident),* $(,)?}),* $(,)?) => {
        everywhere!(@place memory $($module $($body)*;)*);
        everywhere!(@place redb $($module $($body)*;)*);
        everywhere!(@place nats $($module $($body)*;)*);
    };
    (@place $place:ident $($module:ident $($body:ident)*;)*) => {
        mod $place {
            $($(
                #[tokio::test(flavor = "multi_thread")]
                async fn $body() {
                    super::$module::$body(super::home::Home::$place().await).await;
                }
            )*)*
        }
    };
}

everywhere! {
    keys::{
        keys_are_written_and_read,
        writers_name_what_they_expect,
        keys_are_listed_in_order,
        keys_with_a_time_pass,
        watchers_see_what_is_there_and_what_changes,
        watchers_see_keys_pass,
        large_values_are_refused,
        results_are_bounded_in_all,
        of_many_writers_one_wins,
    },
    queues::{
        first_in_first_out,
        the_same_item_is_added_once,
        limits_hold_among_racing_takers,
        no_spot_has_more_than_its_limit,
        what_nobody_settles_is_given_out_again,
        leases_can_be_changed,
        retries_wait_for_their_time,
        the_dead_are_kept_apart,
        the_dead_come_in_pages,
        the_dead_are_bounded_in_all,
        the_dead_pass_with_age,
        full_queues_refuse,
        counts_tell_where_items_are,
        items_are_found_by_id,
        changes_are_told,
        any_name_will_do,
    },
    restart::{
        everything_outlives_a_restart,
    },
}
