// What the connections of all clients share, each process having its part.
#pragma once

#include "connections/owners.h"
#include "memory_watch.h"
#include "scheduling/shares.h"
#include "scheduling/turns.h"

namespace kiln::server {

struct ClientShares {
  explicit ClientShares(boost::asio::io_context& io) : turns(io) {}

  Shares places;       // connections
  Shares incoming;     // bytes of requests that are not complete yet
  Shares outgoing;     // bytes of replies that nobody has read yet
  Shares descriptors;  // that were passed, and not received yet
  Turns turns;         // time of the io thread
  Owners owners;       // whose all that is
  MemoryWatch memory;  // of the daemon
};

}  // namespace kiln::server
