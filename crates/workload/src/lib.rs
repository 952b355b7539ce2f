//! Workloads: the Microscape site and content synthesis.
