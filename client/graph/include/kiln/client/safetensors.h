// Weights from a `.safetensors` file, by memory map: nothing is read before it is used, and nothing is copied.
//
//   auto file = SafeTensors::open("model.safetensors");
//   if (!file) …file.error().message…
//   auto w = file->find("layers.0.weight");      // an ArrayView, which keeps the file's pages
//   auto model = fn->bind({{"w", *w}});
//
// The format is that of https://huggingface.co/docs/safetensors: a header in JSON, then the elements.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/client/array.h"
#include "kiln/dsl/result.h"

namespace kiln::client {

// An open file. Cheap to copy; immutable, and so for any thread. A file that is cut short while it is open ends the
// process that reads there, as with every memory map.
class SafeTensors {
 public:
  struct Tensor {
    std::string name = {};
    dsl::ElementType element = dsl::ElementType::kF32;
    std::vector<int64_t> shape = {};
    uint64_t offset = 0, bytes = 0;  // behind the header
  };

  // Errors name the file, and the tensor: a header beyond 16 MiB or with a type, shape or place that cannot be, bytes
  // of two tensors or of none, types that Kiln does not have.
  static Result<SafeTensors> open(const std::string& path);
  // Of such a file that is a part of another.
  static Result<SafeTensors> open_part(const std::string& path, uint64_t offset, uint64_t bytes);

  const std::vector<Tensor>& tensors() const;                  // in the order of their places
  const std::map<std::string, std::string>& metadata() const;  // the header's `__metadata__`
  // kNotFound names the file. Read only. Its address need not be a multiple of its elements' size.
  Result<ArrayView> find(std::string_view name) const;
  ArrayView view(const Tensor& tensor) const;  // of one of tensors()

 private:
  struct File;
  explicit SafeTensors(std::shared_ptr<const File> file) : file_(std::move(file)) {}
  std::shared_ptr<const File> file_;
};

// What stands before the elements of tensors of these names, types and shapes, one behind the other, row-major. It
// takes a multiple of 64 bytes.
std::string safetensors_header(const std::vector<SafeTensors::Tensor>& tensors);

}  // namespace kiln::client

namespace kiln {
using client::SafeTensors;
}  // namespace kiln
