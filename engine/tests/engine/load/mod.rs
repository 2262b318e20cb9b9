//! Loads: their measurements of correct and of faulty servers.

mod closed;
mod connections;
mod faulty_servers;
mod held_up_requests;
mod http_servers;
mod open;
mod real_servers;
mod replies;
mod table;
mod traffic;
