// Products against OpenBLAS and oneDNN, interleaved in one process, medians. A few configs of the kernel are tried for
// each shape first, as the tuner would.
//   bench-gemm [threads] [filter]      the filter is part of "type/case", for example f32/ or llama; the type "f32
//                                      packed" is f32 with weights packed ahead
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "../quickstart/buffer.h"
#include "../quickstart/ceilings.h"
#include "gemm_peers.h"
#include "kiln/client/client.h"
#include "kiln/dsl/kernels.h"
#include "large_pages.h"

namespace kiln::bench {
namespace {

namespace lang = dsl::lang;

struct Case {
  std::string group;
  int32_t m, n, k;
  double flops() const { return 2.0 * m * n * k; }
  std::string name() const { return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k); }
};

std::vector<Case> cases() {
  std::vector<Case> out;
  for (int32_t size : {64, 128, 256, 512, 1024, 2048}) out.push_back({"cube", size, size, size});
  for (int32_t size : {47, 127, 1000}) out.push_back({"odd", size, size, size});
  out.push_back({"skinny", 1, 4096, 4096});
  out.push_back({"skinny", 8, 4096, 4096});
  for (auto [n, k] : {std::pair{768, 768}, {3072, 768}, {768, 3072}}) out.push_back({"bert-base", 128, n, k});
  for (auto [n, k] : {std::pair{4096, 4096}, {1024, 4096}, {14336, 4096}}) out.push_back({"llama-3-8b", 128, n, k});
  // Convolutions as products: 1×1 of stage 1, 3×3 of stages 2 and 4.
  for (auto [m, n, k] : {std::array{3136, 256, 64}, {784, 128, 1152}, {49, 512, 4608}}) {
    out.push_back({"resnet-50", m, n, k});
  }
  for (auto [n, k] : {std::pair{512, 13}, {1024, 479}}) out.push_back({"dlrm", 256, n, k});
  return out;
}

// Of one thread the time that it ran, which neighbours on a shared machine disturb less.
double now(int threads) {
  timespec time{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Threads of another library's pool wait busily for milliseconds behind its work, on cores that the next one wants.
// Then all sleep, and a short product wakes them.
double seconds(const std::function<void()>& work, int repeats, int threads) {
  if (threads > 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (threads > 1 && repeats > 1) work();
  const double start = now(threads);
  for (int i = 0; i < repeats; ++i) work();
  return (now(threads) - start) / repeats;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Blocks of a shape worth trying: few and large ones, whole shapes where they are small.
std::vector<std::array<int64_t, 3>> configs(const Case& s, int threads) {
  auto even = [](int32_t extent, int64_t most, int64_t multiple) {
    const int64_t parts = (extent + most - 1) / most, part = (extent + parts - 1) / parts;
    return std::min<int64_t>(extent, (part + multiple - 1) / multiple * multiple);
  };
  std::set<std::array<int64_t, 3>> out;
  if (s.m <= 16) {
    for (int64_t bn : {int64_t{1024}, int64_t{4096}, even(s.n, (s.n + threads - 1) / threads, 16)}) {
      for (int64_t bk : {8, 16, 64}) out.insert({s.m, std::min<int64_t>(bn, s.n), std::min<int64_t>(bk, s.k)});
    }
  } else {
    for (int64_t bm : {128, 256, 512}) {
      for (int64_t bn : {256, 512}) {
        for (int64_t bk : {128, 256, 512}) {
          out.insert({even(s.m, bm, 1), even(s.n, bn, 16), even(s.k, bk, 16)});
        }
      }
    }
    // Many threads want many blocks.
    if (threads > 4) {
      for (int64_t bm : {32, 64, 128}) {
        for (int64_t bn : {64, 128}) out.insert({even(s.m, bm, 1), even(s.n, bn, 16), even(s.k, 512, 16)});
      }
    }
    // Where one block holds all, several threads want several.
    if (threads > 1 && s.m <= 512) out.insert({(s.m + threads - 1) / threads, even(s.n, 256, 16), even(s.k, 256, 16)});
  }
  return {out.begin(), out.end()};
}

// ---- our side, by element type ----

// C = A·B with the accumulator's type for C: for types that the library has no kernel of.
template <class A, class B, class C>
const auto& plain_product() {
  static const auto def = lang::kernel("bench_product", {"A", "B", "C", "M", "N", "K", "BM=128", "BN=256", "BK=256"},
                                       [](lang::Ptr<const A> a, lang::Ptr<const B> b, lang::Ptr<C> c, lang::i32 M,
                                          lang::i32 N, lang::i32 K, lang::Const BM, lang::Const BN, lang::Const BK) {
                                         lang::grid(lang::cdiv(M, BM) * lang::cdiv(N, BN));
                                         const auto [i, j] = lang::grouped_order(lang::program_id(0), lang::cdiv(M, BM),
                                                                                 lang::cdiv(N, BN), 8);
                                         const lang::Value m = i * BM, n = j * BN;
                                         lang::Var acc = lang::zeros(lang::element_v<C>, {BM, BN});
                                         for (lang::Value k : lang::range(0, K, BK)) {
                                           acc = lang::dot(lang::tile(a, {M, K}).load({m, k}, {BM, BK}),
                                                           lang::tile(b, {K, N}).load({k, n}, {BK, BN}), acc);
                                         }
                                         lang::tile(c, {M, N}).store({m, n}, acc);
                                       });
  return def;
}

// Columns of packed weights: those of the micro-kernel (docs/use/kernels.md), with few rows of A two vectors.
int64_t panel_of(const Case& s, size_t element_bytes) {
  constexpr int64_t kFewRows = 14;
#if defined(__x86_64__)
  if (element_bytes < 4 && __builtin_cpu_supports("amx-tile")) return 32;
#endif
  const int64_t width = quickstart::panel_width();
  return s.m > 1 && s.m <= kFewRows ? std::min<int64_t>(width, 32) : width;
}

// Of weights packed ahead: blocks of rows, and of K.
std::vector<std::array<int64_t, 3>> packed_configs(const Case& s, int64_t panel, bool in_units) {
  std::set<std::array<int64_t, 3>> out;
  for (int64_t bm : {128, 256, 512}) {
    const int64_t blocks = (s.m + bm - 1) / bm;
    for (int64_t bk : {128, 256, 512, 1024}) {
      const int64_t parts = (s.k + bk - 1) / bk, depth = (s.k + parts - 1) / parts;
      const int64_t whole = (depth + 15) / 16 * 16;
      out.insert({(s.m + blocks - 1) / blocks, panel, in_units ? whole : std::min<int64_t>(s.k, whole)});
    }
  }
  return {out.begin(), out.end()};
}

using Bytes = quickstart::Buffer<std::byte>;

// Bits of a number of a type, and back, for filling and checking.
struct Element {
  dsl::ElementType type;
  size_t bytes() const { return static_cast<size_t>(dsl::info(type).bytes); }
  double get(const Bytes& from, size_t i) const {
    uint64_t bits = 0;
    std::memcpy(&bits, from.get() + i * bytes(), bytes());
    return dsl::double_from_bits(type, bits);
  }
  Bytes randoms(size_t count, uint32_t seed) const {
    std::minstd_rand random(seed);
    std::uniform_real_distribution<double> uniform(-1, 1);
    Bytes out(count * bytes());
    for (size_t i = 0; i < count; ++i) {
      const uint64_t bits = dsl::is_float(type) ? dsl::bits_from_double(type, uniform(random)) : random() >> 7;
      std::memcpy(out.get() + i * bytes(), &bits, bytes());
    }
    return out;
  }
};

struct Buffers {
  Element a, b, c;
  Bytes left, right, ours, theirs, panels = Bytes(0);
  // What our kernel takes for B.
  std::byte* weights() { return panels.size() == 0 ? right.get() : panels.get(); }
};

// A few elements of C against f64.
bool plausible(const Case& s, const Buffers& data) {
  for (int i = 0; i < 16; ++i) {
    const auto row = static_cast<size_t>((i * 7919) % s.m), column = static_cast<size_t>((i * 104729) % s.n);
    double sum = 0, size = 1;
    for (size_t k = 0; k < static_cast<size_t>(s.k); ++k) {
      const double product = data.a.get(data.left, row * static_cast<size_t>(s.k) + k) *
                             data.b.get(data.right, k * static_cast<size_t>(s.n) + column);
      sum += product;
      size += std::fabs(product);
    }
    const double tolerance = data.c.type == dsl::ElementType::kI32 ? 0 : size * (data.c.bytes() == 2 ? 1e-2 : 1e-5);
    if (std::fabs(data.c.get(data.ours, row * static_cast<size_t>(s.n) + column) - sum) > tolerance) return false;
  }
  return true;
}

struct Ours {
  std::function<void()> run;
  std::array<int64_t, 3> config{};
  double first_get_ms = 0;  // a compile, unless the cache on disk knew it
};

// For about a millisecond: what is measured right behind something else begins with cold caches.
int repeats_of(const Case& s) { return std::max(1, static_cast<int>(1e8 / s.flops())); }

template <class A, class B, class C, class Def>
Ours best_config(Client& client, const Def& def, const Case& s, int threads, Buffers& data) {
  std::vector<Ours> tried;
  for (const auto& config : data.panels.size() == 0
                                ? configs(s, threads)
                                : packed_configs(s, panel_of(s, data.b.bytes()), data.b.bytes() < 4)) {
    const double begin = now(0);
    auto fn = client.get(def, {.constexprs = {{"BM", config[0]}, {"BN", config[1]}, {"BK", config[2]}}});
    const double compile = now(0) - begin;
    if (!fn) {
      std::fprintf(stderr, "%s: %s\n", s.name().c_str(), fn.error().message.c_str());
      std::exit(1);
    }
    auto run = [&data, s, threads, fn = *fn]() mutable {
      (void)fn.launch({.threads = threads}, reinterpret_cast<const A*>(data.left.get()),
                      reinterpret_cast<const B*>(data.weights()), reinterpret_cast<C*>(data.ours.get()), s.m, s.n, s.k);
    };
    run();
    tried.push_back({run, config, compile * 1e3});
  }
  std::vector<double> times(tried.size(), 1e300);
  for (int round = 0; round < 5; ++round) {
    for (size_t i = 0; i < tried.size(); ++i) {
      times[i] = std::min(times[i], seconds(tried[i].run, repeats_of(s), threads));
    }
  }
  return tried[static_cast<size_t>(std::min_element(times.begin(), times.end()) - times.begin())];
}

struct Row {
  std::string label, peer;
  double rate, ratio, share;
};

struct Report {
  int threads;
  std::vector<Row> rows;
  std::map<std::string, std::vector<double>> cubes;  // ratios of 256…2048, by type

  void print() const {
    std::printf("#\n# %-28s %10s %8s %-10s %s\n", "case", "GFLOP/s", "ratio", "best peer", "of the f32 FMA ceiling");
    for (const Row& row : rows) {
      std::printf("# %-28s %10.1f %8.2f %-10s %.2f\n", row.label.c_str(), row.rate, row.ratio, row.peer.c_str(),
                  row.share);
    }
    for (const auto& [type, ratios] : cubes) {
      double logs = 0;
      for (double ratio : ratios) logs += std::log(ratio);
      std::printf("# %s, 256…2048 cubed, %d threads: geometric mean %.3f\n", type.c_str(), threads,
                  std::exp(logs / static_cast<double>(ratios.size())));
    }
  }
};

void measure(const Case& s, const std::string& type, const Ours& ours, Buffers& data, const Peers& peers,
             quickstart::Ceilings& ceilings, Report& report) {
  ours.run();
  const bool right = plausible(s, data);
  if (!right) std::printf("# WRONG %s %s\n", type.c_str(), s.name().c_str());
  const auto others = peers.of(type, {s.m, s.n, s.k, data.left.get(), data.right.get(), data.theirs.get()});
  const double flops = s.flops();
  std::vector<double> our_times;
  double fma = 0;
  std::vector<std::vector<double>> times(others.size());
  for (const Peer& peer : others) peer.run();
  for (size_t round = 0; round < 11; ++round) {
    // Whoever comes first finds the operands in no cache: everybody in turn.
    for (size_t turn = 0; turn <= others.size(); ++turn) {
      const size_t i = (round + turn) % (others.size() + 1);
      const bool us = i == others.size();
      (us ? our_times : times[i]).push_back(seconds(us ? ours.run : others[i].run, repeats_of(s), report.threads));
    }
    fma = std::max(fma, ceilings.measure(quickstart::Limit::kFma));
  }
  auto line = [&](const std::string& who, const char* metric, double value) {
    std::printf("gemm,%s/%s,%s,%s,%s,%.1f\n", s.group.c_str(), s.name().c_str(), type.c_str(), who.c_str(), metric,
                value);
  };
  const double rate = flops / median(our_times) / 1e9;
  line("kiln", "GFLOP/s", rate);
  line("kiln", "first get ms", ours.first_get_ms);
  Row row{type + " " + s.group + " " + s.name(), "-", rate, 0, rate / fma};
  double best = 0;
  for (size_t i = 0; i < others.size(); ++i) {
    const double theirs = flops / median(times[i]) / 1e9;
    line(others[i].name, "GFLOP/s", theirs);
    if (theirs > best) {
      best = theirs;
      row.peer = others[i].name;
    }
  }
  if (best > 0) row.ratio = rate / best;
  std::printf("# %s %s: BM=%ld BN=%ld BK=%ld\n", type.c_str(), s.name().c_str(), ours.config[0], ours.config[1],
              ours.config[2]);
  if (s.group == "cube" && s.m >= 256 && best > 0) report.cubes[type].push_back(row.ratio);
  report.rows.push_back(row);
  std::fflush(stdout);
}

// GEMM + bias + gelu against GEMM alone, the same blocks.
void measure_epilogue(Client& client, int threads) {
  const Case s{"bert-base", 128, 3072, 768};
  const Element f32{dsl::ElementType::kF32};
  const size_t m = 128, n = 3072, k = 768;
  Buffers data{f32, f32, f32, f32.randoms(m * k, 1), f32.randoms(k * n, 2), Bytes(m * n * 4), Bytes(0)};
  const Bytes bias = f32.randoms(n, 3);
  const Ours plain = best_config<float, float, float>(client, kernels::matmul<lang::f32>(), s, threads, data);
  auto fused = client.get(kernels::matmul_bias_act<lang::f32>(),
                          {.constexprs = {{"BM", plain.config[0]}, {"BN", plain.config[1]}, {"BK", plain.config[2]}}});
  if (!fused) return;
  auto of = [](const Bytes& bytes) { return reinterpret_cast<float*>(bytes.get()); };
  auto run_fused = [&] {
    (void)fused->launch({.threads = threads}, of(data.left), of(data.right), of(bias), of(data.ours), s.m, s.n, s.k);
  };
  run_fused();
  std::vector<double> alone, with;
  for (int round = 0; round < 21; ++round) {
    alone.push_back(seconds(plain.run, 1, threads));
    with.push_back(seconds(run_fused, 1, threads));
  }
  std::printf("gemm,bert-base/%s,f32,kiln,share of bias+gelu %%,%.1f\n", s.name().c_str(),
              100 * (median(with) / median(alone) - 1));
}

template <class T, class M>
void pack(Client& client, const Case& s, Buffers& data) {
  constexpr int64_t unit = kernels::packed_unit_v<T>;
  const int64_t width = panel_of(s, sizeof(M)), panels = (s.n + width - 1) / width;
  const int64_t depth = (s.k + unit - 1) / unit * unit;
  data.panels = Bytes(static_cast<size_t>(panels * width * depth) * sizeof(M));
  auto fn = client.get(kernels::pack_weights<T>(), {.constexprs = {{"BN", width}}});
  auto run = [&] {
    return fn->launch({}, reinterpret_cast<const M*>(data.right.get()), reinterpret_cast<M*>(data.weights()), s.n, s.k,
                      s.n, 1);
  };
  if (fn && run()) return;
  std::fprintf(stderr, "%s: cannot pack\n", s.name().c_str());
  std::exit(1);
}

template <class A, class B, class C, class Def>
void measure_all(Client& client, const Def& def, const std::string& type, const std::string& filter, int threads,
                 const Peers& peers, quickstart::Ceilings& ceilings, Report& report, Element a, Element b, Element c) {
  for (const Case& s : cases()) {
    if ((type + "/" + s.group + "/" + s.name()).find(filter) == std::string::npos) continue;
    const auto m = static_cast<size_t>(s.m), n = static_cast<size_t>(s.n), k = static_cast<size_t>(s.k);
    const size_t out = m * n * c.bytes();
    Buffers data{a, b, c, a.randoms(m * k, 1), b.randoms(k * n, 2), Bytes(out), Bytes(out)};
    if (type == "f32 packed") pack<lang::f32, float>(client, s, data);
    if (type == "bf16 packed") pack<lang::bf16, bf16>(client, s, data);
    if (type == "i8 packed") pack<lang::i8, int8_t>(client, s, data);
    const Ours ours = best_config<A, B, C>(client, def, s, threads, data);
    measure(s, type, ours, data, peers, ceilings, report);
  }
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  using namespace kiln::bench;
  using kiln::dsl::ElementType;
  take_large_pages(argv);
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const std::string filter = argc > 2 ? argv[2] : "";
  const Peers peers(threads);
  omp_set_num_threads(threads);
  kiln::bench::Report report{threads, {}, {}};
  kiln::quickstart::Ceilings ceilings(true);
  kiln::Client client;
  const Element f32{ElementType::kF32}, f64{ElementType::kF64}, f16{ElementType::kF16}, bf16{ElementType::kBF16},
      i8{ElementType::kI8}, u8{ElementType::kU8}, i32{ElementType::kI32};
  auto all = [&]<class A, class B, class C>(const auto& def, const char* type, Element a, Element b, Element c) {
    measure_all<A, B, C>(client, def, type, filter, threads, peers, ceilings, report, a, b, c);
  };
  all.operator()<float, float, float>(kiln::kernels::matmul<lang::f32>(), "f32", f32, f32, f32);
  all.operator()<float, float, float>(kiln::kernels::matmul_packed<lang::f32>(), "f32 packed", f32, f32, f32);
  all.operator()<double, double, double>(plain_product<lang::f64, lang::f64, lang::f64>(), "f64", f64, f64, f64);
  all.operator()<kiln::f16, kiln::f16, kiln::f16>(kiln::kernels::matmul<lang::f16>(), "f16", f16, f16, f16);
  all.operator()<kiln::bf16, kiln::bf16, kiln::bf16>(kiln::kernels::matmul<lang::bf16>(), "bf16", bf16, bf16, bf16);
  all.operator()<int8_t, int8_t, int32_t>(plain_product<lang::i8, lang::i8, lang::i32>(), "i8", i8, i8, i32);
  all.operator()<kiln::bf16, kiln::bf16, kiln::bf16>(kiln::kernels::matmul_packed<lang::bf16>(), "bf16 packed", bf16,
                                                     bf16, bf16);
  all.operator()<int8_t, int8_t, int32_t>(kiln::kernels::matmul_packed<lang::i8>(), "i8 packed", i8, i8, i32);
  all.operator()<uint8_t, int8_t, int32_t>(plain_product<lang::u8, lang::i8, lang::i32>(), "u8", u8, i8, i32);
  if (std::string("f32/epilogue").find(filter) != std::string::npos) measure_epilogue(client, threads);
  report.print();
}
