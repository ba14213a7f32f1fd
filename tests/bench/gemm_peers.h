// The libraries that products are compared with, loaded at run time where they are installed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kiln::bench {

struct Product {
  int32_t m, n, k;
  const void *a, *b;  // [m, k] and [k, n], row-major
  void* c;            // [m, n]
};

struct Peer {
  std::string name;
  std::function<void()> run;
};

class Peers {
 public:
  explicit Peers(int threads);
  // Those that compute this product of `type`: f32, f64, f16, bf16, i8 (i8·i8 in i32) or u8 (u8·i8 in i32), or of "f32
  // packed": b may be packed ahead by who can.
  std::vector<Peer> of(const std::string& type, const Product& product) const;

 private:
  void load_openblas(int threads);
  void load_onednn();

  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
  using Dgemm = void (*)(int, int, int, int, int, int, double, const double*, int, const double*, int, double, double*,
                         int);
  Sgemm sgemm_ = nullptr;
  Dgemm dgemm_ = nullptr;
  using OneSgemm = int (*)(char, char, int64_t, int64_t, int64_t, float, const float*, int64_t, const float*, int64_t,
                           float, float*, int64_t);
  template <class A>
  using OneBytes = int (*)(char, char, char, int64_t, int64_t, int64_t, float, const A*, int64_t, A, const int8_t*,
                           int64_t, int8_t, float, int32_t*, int64_t, const int32_t*);
  OneSgemm one_sgemm_ = nullptr;
  OneBytes<uint8_t> one_u8_ = nullptr;
  OneBytes<int8_t> one_i8_ = nullptr;
  void* onednn_ = nullptr;
};

// oneDNN's matmul primitive for types that have no plain function; absent without its headers at build time, or where
// it has none for the type. `packed`: b is put into the layout that it likes first.
std::function<void()> onednn_matmul(void* library, const std::string& type, const Product& product,
                                    bool packed = false);

// libxsmm's f32 product on one thread; absent without the library at build time, or where it has none for the shape.
std::function<void()> xsmm_product(const Product& product);

}  // namespace kiln::bench
