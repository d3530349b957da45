//! A guard that is held, while its store does what stores do.

mod letting_go;
mod loss;
mod renewal;
mod runtimes;
mod writing;
