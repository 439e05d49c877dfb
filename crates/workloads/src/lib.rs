//! The workload controllers: Deployment, ReplicaSet, StatefulSet, endpoints, garbage collection, namespaces, HPA.
