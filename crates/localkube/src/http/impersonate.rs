//! `kubectl --as`: a request in the name of somebody else, for who may do that.

use http::HeaderMap;

use super::User;
use crate::{
    ApiServer,
    error::{ApiError, Result},
    rbac::{self, Attributes},
};

const ACCOUNT: &str = "system:serviceaccount:";

/// Whose rights the request has.
pub fn acting(server: &ApiServer, user: User, headers: &HeaderMap) -> Result<User> {
    let texts = |name: &str| -> Vec<String> {
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
    };
    let (name, mut groups) = (texts("impersonate-user").into_iter().next(), texts("impersonate-group"));
    let unsupported = headers
        .keys()
        .map(http::HeaderName::as_str)
        .find(|name| *name == "impersonate-uid" || name.starts_with("impersonate-extra-"));
    if let Some(header) = unsupported {
        return Err(ApiError::bad_request(format!("the header {header} is not supported")));
    }
    let Some(name) = name else {
        return match groups.is_empty() {
            true => Ok(user),
            false => Err(ApiError::internal(format!("requested {groups:?} without impersonating a user"))),
        };
    };
    let account = name.strip_prefix(ACCOUNT).and_then(|rest| rest.split_once(':'));
    let (namespace, resource, shown) = match account {
        Some((namespace, account)) => (namespace, "serviceaccounts", account),
        None => ("", "users", name.as_str()),
    };
    let may = |namespace, resource, name| {
        let attributes = Attributes::Resource {
            verb: "impersonate",
            namespace,
            group: "",
            resource,
            subresource: "",
            name,
        };
        rbac::check(server, &user, &attributes)
    };
    may(namespace, resource, shown)?;
    for group in &groups {
        may("", "groups", group)?;
    }
    if groups.is_empty()
        && let Some((namespace, _)) = account
    {
        groups.extend(["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]);
    }
    let known = if name == "system:anonymous" { "system:unauthenticated" } else { "system:authenticated" };
    if !groups.iter().any(|group| group == known) {
        groups.push(known.to_owned());
    }
    Ok(User { name: name.into(), groups: groups.into() })
}
