//! What only the master does.

use controllers::{function, roles};
use tokio::sync::watch;

/// Tells whether this node is the master.
pub async fn follow(mut roles: watch::Receiver<roles::Roles>, told: watch::Sender<bool>) {
    loop {
        let is_master = roles.borrow_and_update().master;
        told.send_if_modified(|known| std::mem::replace(known, is_master) != is_master);
        if roles.changed().await.is_err() {
            // a node that is alone stays what it is
            return std::future::pending().await;
        }
    }
}

/// Runs while this node is the master: two of them would argue about the same objects.
pub async fn function_controller(
    client: kube::Client,
    options: function::Options,
    mut is_master: watch::Receiver<bool>,
) {
    loop {
        if is_master.wait_for(|is_master| *is_master).await.is_err() {
            return;
        }
        let mut lost = is_master.clone();
        let until_lost = async move {
            let _ = lost.wait_for(|is_master| !*is_master).await;
        };
        function::run(client.clone(), options.clone(), until_lost).await;
    }
}
