//! Where the figures can be had: a page for scrapers, and the API for external metrics.

use std::sync::Arc;

use anyhow::Result;
use cluster::pages;
use serde_json::json;
use tokio::net::TcpListener;

use crate::figures::{Figures, number};

pub async fn source(figures: Arc<Figures>, port: u16) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    tokio::spawn(pages::serve(listener, move |_| (pages::METRICS, figures.page())));
    Ok(())
}

pub async fn external_metrics(figures: Arc<Figures>, port: u16) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let page = move |path: &str| ("application/json", external(&figures, path));
    tokio::spawn(pages::serve_tls(listener, pages::tls()?, page));
    Ok(())
}

/// The group's resources, or the value for the object that the selector names: `…/load?labelSelector=object%3Df00001`.
fn external(figures: &Figures, path: &str) -> String {
    let object = path.split_once("labelSelector=object%3D").map(|(_, rest)| rest);
    let object = object.and_then(|rest| number(rest.split('&').next()?));
    let Some(value) = object.and_then(|object| figures.of(object)) else {
        return json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "external.metrics.k8s.io/v1beta1",
            "resources": [{
                "name": "load", "singularName": "", "namespaced": true,
                "kind": "ExternalMetricValueList", "verbs": ["get"],
            }],
        })
        .to_string();
    };
    json!({
        "kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1", "metadata": {},
        "items": [{
            "metricName": "load", "metricLabels": {}, "timestamp": jiff::Timestamp::now(), "value": value.to_string(),
        }],
    })
    .to_string()
}
