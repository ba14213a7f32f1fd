// Files: whole reads, and writes that appear complete or not at all.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kiln/dsl/result.h"

namespace kiln::wire {

// A regular file opened for reading; messages name it.
class InputFile {
 public:
  static Result<InputFile> open(const std::string& path);
  bool read(void* data, size_t size);  // false unless all of it is there
  size_t remaining() const { return remaining_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  size_t remaining_ = 0;
};

// Error: a fifo of another user's, at which whoever opens it may wait for ever. One's own and pipes are fine.
Result<void> refuse_anothers_fifo(const std::string& path);

// Whole, at most 64 MiB. Errors name the file.
Result<std::string> read_text(const std::string& path);

// Writes beside the target and renames, so that a failure leaves no partial file and an old one intact. Devices, pipes
// and this user's own fifos are written into; one that nobody reads is an error, and is not waited for.
Result<void> write_file(const std::string& path, std::span<const std::span<const std::byte>> pieces);
Result<void> write_text(const std::string& path, std::string_view text);
// Whether write_file could succeed, found out before a long computation; creates nothing.
Result<void> check_writable(const std::string& path);

}  // namespace kiln::wire
