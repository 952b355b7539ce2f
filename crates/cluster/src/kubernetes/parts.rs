//! Parts that several manifests share.

use super::names::Name;
use super::yaml::{Node, text};

/// Name, namespace and label of an object.
pub(super) fn metadata(name: &(impl ToString + ?Sized), namespace: Option<&Name>) -> Node {
    let mut metadata = vec![("name", text(name))];
    metadata.extend(namespace.map(|namespace| ("namespace", text(namespace))));
    let labels = vec![("app.kubernetes.io/name", text("fathometer"))];
    metadata.push(("labels", Node::Map(labels)));
    Node::Map(metadata)
}

/// The label that a Job's controller gives to its pods.
pub(super) fn job_label(job: &(impl ToString + ?Sized)) -> Node {
    Node::Map(vec![("batch.kubernetes.io/job-name", text(job))])
}

/// An argument of a container, escaped: Kubernetes replaces $(NAME), and $$ by $ (API reference, Container, args).
pub(super) fn literal(argument: &str) -> Node {
    text(&argument.replace('$', "$$"))
}

/// A variable of a container's environment.
pub(super) fn variable(name: &str, value: &str) -> Node {
    Node::Map(vec![("name", text(name)), ("value", text(value))])
}

/// An empty folder for temporary files; the image has none.
pub(super) fn temporary_volume() -> Node {
    Node::Map(vec![("name", text("tmp")), ("emptyDir", Node::Map(vec![]))])
}

/// The path at which a container mounts a volume.
pub(super) fn mount(volume: &str, path: &str) -> Node {
    Node::Map(vec![("name", text(volume)), ("mountPath", text(path))])
}
