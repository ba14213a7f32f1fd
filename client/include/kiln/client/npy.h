// NumPy's `.npy` files, versions 1 and 2: little-endian and C order only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "kiln/dsl/result.h"
#include "kiln/dsl/types.h"

namespace kiln::client {

// Elements in row-major order, 64-byte aligned.
struct NpyArray {
  std::vector<int64_t> shape;
  std::string dtype;  // NumPy's: "<f4", "|u1"
  size_t bytes = 0;

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  int64_t count() const;

  // Zeros. Error where the size overflows or there is no memory.
  static Result<NpyArray> make(std::vector<int64_t> shape, dsl::ElementType type);

 private:
  friend Result<NpyArray> read_npy(const std::string& path);
  Result<void> allocate(size_t size);
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

// How an element type travels: "<f4" for f32; bf16 as "<u2", f8 as "|u1".
std::string npy_dtype(dsl::ElementType type);
// "[4096, 1024]"
std::string shape_text(const std::vector<int64_t>& shape);

// Every message names the file.
Result<NpyArray> read_npy(const std::string& path);
Result<void> write_npy(const std::string& path, const NpyArray& array);

}  // namespace kiln::client
