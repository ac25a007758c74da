// Processes of a pod whose shim is gone: found by cgroup, else by session and by the mark in their
// environment.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "agent/pod_files.hpp"

namespace ebb::agent {

/// Zombies do not count: they hold nothing.
std::vector<pid_t> leftovers_of(const Identity& identity, const std::string& mark);
void kill_leftovers(const Identity& identity, const std::string& mark);
bool main_process_lives(const Identity& identity);

}  // namespace ebb::agent
