//! What all controllers share: caches fed by watches, queues of keys, effects and their execution.
