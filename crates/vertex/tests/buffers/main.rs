//! One suite for every place: what holds on NATS holds in a file, and for a pod that is served from it.

#![allow(clippy::unwrap_used, clippy::panic)]

mod home;
mod suite;

/// Each body as a test of each place.
macro_rules! everywhere {
    ($($body:ident),* $(,)?) => {
        everywhere!(@place jetstream $($body)*);
        everywhere!(@place embedded $($body)*);
        everywhere!(@place served $($body)*);
    };
    (@place $place:ident $($body:ident)*) => {
        mod $place {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $body() {
                    super::suite::$body(super::home::Home::$place().await).await;
                }
            )*
        }
    };
}

everywhere! {
    what_is_published_is_delivered_in_order,
    the_same_id_is_kept_once,
    ids_are_forgotten_after_the_window,
    counters_tell_where_messages_are,
    what_nobody_acknowledges_is_delivered_again,
    progress_keeps_a_message,
    what_is_given_back_comes_again_after_its_delay,
    no_more_wait_for_acknowledgement_than_allowed,
    whoever_waits_gets_the_next_message,
    readers_share_what_is_there,
    large_messages_are_refused_and_many_are_cut,
    buffers_are_made_and_deleted,
    everything_outlives_a_restart,
    a_full_buffer_refuses,
}
