// A ZIP archive whose members are stored uncompressed, mapped into memory.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "kiln/dsl/result.h"

namespace kiln::graph::pt2 {

struct Archive {
  std::shared_ptr<const void> mapping;  // of the whole file, which members borrow
  // By path below the folder that all members share, `weights/weight_0`.
  std::map<std::string, std::span<const std::byte>, std::less<>> members;
};

// Errors name the file: no archive, compressed or encrypted members, one name twice, bytes outside of the file.
Result<Archive> open_archive(const std::string& path);

}  // namespace kiln::graph::pt2
