//! Loads: what they measure, of servers that are right and of servers that are not.

mod closed;
mod connections;
mod faulty_servers;
mod held_up_requests;
mod http_servers;
mod open;
mod replies;
mod traffic;
