// From options to a greeted session.
#pragma once

#include <memory>

#include "connection_session.h"
#include "kiln/client/connection.h"

namespace kiln::client {

Result<std::unique_ptr<Session>> open_session(ConnectOptions options);

}  // namespace kiln::client
