//! Parts that several manifests have.

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

/// An argument of a container, as it is: Kubernetes replaces $(NAME), and $$ by $ (its API reference, Container, args).
pub(super) fn literal(argument: &str) -> Node {
    text(&argument.replace('$', "$$"))
}

/// A variable of a container's environment.
pub(super) fn variable(name: &str, value: &str) -> Node {
    Node::Map(vec![("name", text(name)), ("value", text(value))])
}

/// An empty folder for temporary files, which the image does not have.
pub(super) fn temporary_volume() -> Node {
    Node::Map(vec![("name", text("tmp")), ("emptyDir", Node::Map(vec![]))])
}

/// Where a container has a volume.
pub(super) fn mount(volume: &str, path: &str) -> Node {
    Node::Map(vec![("name", text(volume)), ("mountPath", text(path))])
}
