// Whether a stream's work is being recorded, and what has to live as long as the recording.
#pragma once

#include <memory>

#include "kiln/client/gpu.h"

namespace kiln::client {

bool is_recorded(const Stream& stream);
// Of a stream that is_recorded().
void keep_with_recording(const Stream& stream, std::shared_ptr<const void> what);

}  // namespace kiln::client
