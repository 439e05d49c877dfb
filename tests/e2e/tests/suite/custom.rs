//! Custom resources.

use anyhow::{Result, ensure};
use cluster::Cluster;
use e2e::{Place, at, dynamic, eventually};
use kube::api::{Patch, PatchParams};
use serde_json::json;

pub async fn a_custom_resource_scales_through_kubectl(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "custom").await?;
    place
        .apply(
            r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rooms.e2e.example.org}
spec:
  group: e2e.example.org
  scope: Namespaced
  names: {plural: rooms, singular: room, kind: Room, shortNames: [rm]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.seats, statusReplicasPath: .status.seats}}
    additionalPrinterColumns: [{name: Seats, type: integer, jsonPath: .spec.seats}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              seats: {type: integer, minimum: 0, default: 1}
              color: {type: string, enum: [red, green]}
          status: {type: object, properties: {seats: {type: integer}}}
"#,
        )
        .await?;
    place.kubectl("wait --for=condition=Established crd/rooms.e2e.example.org").await?;
    let manifest = "{apiVersion: e2e.example.org/v1, kind: Room, metadata: {name: hall}, spec: {color: red}}";
    // the real server needs a moment to serve a new kind
    eventually("the new kind to be served", || async {
        Ok(place.apply(manifest).await.map_err(|error| error.to_string()))
    })
    .await?;
    place.kubectl("scale room/hall --replicas=7").await?;
    let hall = place.until("rm", "hall", |_| true).await?;
    ensure!(
        at(&hall, "/spec/seats") == &json!(7) && at(&hall, "/metadata/generation") == &json!(2),
        "{hall}"
    );
    ensure!(place.kubectl("get rooms").await?.contains("SEATS"));
    let wrong = place.kubectl(r#"patch room hall --type=merge -p {"spec":{"color":"blue"}}"#).await;
    let message = format!("{:?}", wrong.err());
    ensure!(message.contains("Unsupported value") && message.contains("green"), "{message}");

    let rooms = dynamic(&place, "e2e.example.org", "v1", "Room", "rooms");
    rooms
        .patch_status("hall", &PatchParams::default(), &Patch::Merge(json!({"status": {"seats": 7}})))
        .await?;
    let scale = rooms.get_scale("hall").await?;
    ensure!(scale.status.map(|status| status.replicas) == Some(7));
    place.kubectl("explain room.spec.color").await?;
    place.kubectl("delete crd rooms.e2e.example.org").await?;
    Ok(())
}
