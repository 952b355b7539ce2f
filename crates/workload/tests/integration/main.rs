//! Laws and workloads through the public interface, compared with the papers and with SciPy.

mod laws;
mod surge;
