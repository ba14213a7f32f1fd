// The structs by which libraries hand arrays to each other, as DLPack 1.1 defines them (https://dmlc.github.io/dlpack,
// dlpack.h): only the places of their fields, and the numbers that Kiln knows.
#pragma once

#include <cstdint>

namespace kiln::c::dlpack {

inline constexpr uint32_t kMajorVersion = 1, kMinorVersion = 1;

enum Device : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kRocm = 10, kRocmHost = 11, kCudaManaged = 13 };
enum Code : uint8_t { kInt = 0, kUnsigned = 1, kFloat = 2, kBfloat = 4, kBool = 6, kFloat8E4M3 = 10, kFloat8E5M2 = 12 };
inline constexpr uint64_t kReadOnly = 1;

struct Tensor {
  void* data;
  struct {
    int32_t type;
    int32_t id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
  } dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null of old producers: row-major
  uint64_t byte_offset;
};

struct Managed {  // without a version, before 1.0
  Tensor tensor;
  void* context;
  void (*deleter)(Managed*);
};

struct ManagedVersioned {
  struct {
    uint32_t major, minor;
  } version;
  void* context;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;
  Tensor tensor;
};

}  // namespace kiln::c::dlpack
