//! A cluster whose buffers are values.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::Result;
use api::numaflow::BufferConfig;
use controllers::{
    data_plane::{Buffers, NewBuffer, Services, Waiting},
    pipelines::{self, Options, Parts},
};
use engine::{Engine, Fence, Supervisor};
use faults::{Plan, RELIST_PERIOD, Start, World};
use futures::{
    FutureExt,
    future::{BoxFuture, ready},
};
use localkube::ApiServer;
use scaling::{Claims, History};

/// Buffers that outlive every controller.
#[derive(Clone, Default)]
pub struct Place(Arc<Mutex<BTreeMap<String, Waiting>>>);

impl Place {
    pub fn all(&self) -> MutexGuard<'_, BTreeMap<String, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffers for Place {
    fn create<'a>(&'a self, buffer: &'a NewBuffer) -> BoxFuture<'a, Result<(), String>> {
        self.all().entry(buffer.name.clone()).or_default();
        ready(Ok(())).boxed()
    }

    fn delete<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), String>> {
        self.all().remove(name);
        ready(Ok(())).boxed()
    }

    fn waiting<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Waiting, String>> {
        let found = self.all().get(name).copied();
        ready(found.ok_or_else(|| format!("there is no buffer {name}"))).boxed()
    }

    fn token(&self, owner: &str) -> Option<String> {
        Some(format!("token of {owner}"))
    }
}

impl Services for Place {
    fn find<'a>(
        &'a self,
        _: &'a str,
        _: &'a BufferConfig,
    ) -> BoxFuture<'a, Result<Arc<dyn Buffers>, String>> {
        let found: Arc<dyn Buffers> = Arc::new(self.clone());
        ready(Ok(found)).boxed()
    }
}

pub async fn world(plans: Vec<Plan>, place: &Place) -> Result<World> {
    let client = ApiServer::open(localkube::Options::default()).await?.client("default");
    controllers::crds::install(&client).await?;
    let store = store::open("memory:", store::Options::default()).await?;
    let place = place.clone();
    let start: Start = Arc::new(move |client, end| {
        let (store, place) = (store.clone(), place.clone());
        async move {
            let parts = Parts {
                engine: Engine::new(client, Supervisor::default(), RELIST_PERIOD),
                fence: Fence::open(),
                store,
                history: History::default(),
                claims: Claims::default(),
                services: Arc::new(place),
                options: Options {
                    namespace: None,
                    image: "ballast".to_owned(),
                    command: vec!["ballast".to_owned(), "vertex".to_owned()],
                    embedded_buffers: Some("127.0.0.1:1".to_owned()),
                    loopback_pods: true,
                },
            };
            let scope = pipelines::start(parts).await.scope;
            end.cancelled().await;
            scope.stop().await;
        }
        .boxed()
    });
    let mut world = World::new(client, plans, start);
    world.beside(|client, stop| {
        workloads::Controllers::new(client, workloads::Options::default()).run(stop.cancelled_owned()).boxed()
    });
    Ok(world)
}
