use crate::{call::Call, error::Result, http::Response};

pub fn get(call: &Call) -> Result<Response> {
    call.respond(200, &*call.find()?)
}
