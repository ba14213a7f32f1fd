// From options to a greeted session.
#pragma once

#include <memory>

#include "connection_session.h"
#include "kiln/client/connection.h"

namespace kiln::client {

// kDeadlineExceeded: some part of it hangs. Nothing is left running that was begun for it.
Result<std::unique_ptr<Session>> open_session(ConnectOptions options, wire::Deadline deadline);

}  // namespace kiln::client
