#include "connections/watched.h"

#include <utility>

namespace kiln::server {

Result<boost::asio::posix::stream_descriptor> watched(boost::asio::io_context& io, wire::UniqueFd fd) {
  boost::asio::posix::stream_descriptor out(io);
  boost::system::error_code failed;
  out.assign(fd.get(), failed);
  if (failed) {
    Error refused = error(ErrorCode::kResourceExhausted, "cannot watch a descriptor: " + failed.message());
    refused.retryable = true;
    return refused;
  }
  (void)fd.release();
  return out;
}

}  // namespace kiln::server
