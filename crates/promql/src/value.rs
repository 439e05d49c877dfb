//! What a query answers.

use crate::annotations::Annotations;
use crate::labels::Labels;

#[derive(Debug, Clone, PartialEq)]
pub struct QueryResult {
    pub value: Value,
    pub annotations: Annotations,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Scalar(Point),
    String(String),
    /// In the order in which the query produced them.
    Vector(Vec<Sample>),
    /// Sorted by labels.
    Matrix(Vec<Series>),
}

/// Time in milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub time: i64,
    pub value: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub labels: Labels,
    pub point: Point,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub labels: Labels,
    pub points: Vec<Point>,
}
