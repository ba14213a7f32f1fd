#include "c_launcher.h"

#include <set>

#include "kiln/dsl/expr_json.h"

namespace kiln::cli {
namespace {

using nlohmann::json;

// Shared by all headers of one program.
constexpr const char* kShared = R"(#ifndef KILN_C_LAUNCHER_H
#define KILN_C_LAUNCHER_H
/* Of a launch, beside what entries return. */
enum { KILN_BAD_GRID = -1, KILN_NO_MEMORY = -2, KILN_UNMET_CONDITION = -3 };

/* Exact 64-bit arithmetic: what overflows sets `bad`. x/0 is 0, x rem 0 is x. */
static inline int64_t kiln_add(int64_t a, int64_t b, int* bad) {
  int64_t out = 0;
  *bad |= __builtin_add_overflow(a, b, &out);
  return out;
}
static inline int64_t kiln_mul(int64_t a, int64_t b, int* bad) {
  int64_t out = 0;
  *bad |= __builtin_mul_overflow(a, b, &out);
  return out;
}
static inline int64_t kiln_div(int64_t a, int64_t b, int* bad) {
  return b == -1 ? kiln_mul(a, b, bad) : b == 0 ? 0 : a / b;
}
static inline int64_t kiln_rem(int64_t a, int64_t b, int* bad) {
  (void)bad;
  return b == -1 ? 0 : b == 0 ? a : a % b;
}
static inline int64_t kiln_min(int64_t a, int64_t b, int* bad) { return (void)bad, a < b ? a : b; }
static inline int64_t kiln_max(int64_t a, int64_t b, int* bad) { return (void)bad, a > b ? a : b; }
static inline int64_t kiln_eq(int64_t a, int64_t b, int* bad) { return (void)bad, a == b; }
static inline int64_t kiln_ne(int64_t a, int64_t b, int* bad) { return (void)bad, a != b; }
static inline int64_t kiln_lt(int64_t a, int64_t b, int* bad) { return (void)bad, a < b; }
static inline int64_t kiln_le(int64_t a, int64_t b, int* bad) { return (void)bad, a <= b; }

/* An extent of 0 is a launch of nothing, but where a negative size was rounded up to it. */
static inline int32_t kiln_check_grid(const int64_t extents[3], const int any_negative[3], int bad, uint32_t grid[3]) {
  for (int axis = 0; axis < 3; ++axis) {
    if (bad || extents[axis] < 0 || extents[axis] > (axis == 0 ? INT32_MAX : 65535)) return KILN_BAD_GRID;
    if (extents[axis] == 0 && any_negative[axis]) return KILN_BAD_GRID;
    grid[axis] = (uint32_t)extents[axis];
  }
  return KILN_OK;
}

/* Kernels round to nearest, keep subnormals and trap nowhere, whatever the calling thread does; it gets back what it
 * had. */
typedef struct kiln_floats {
  uint64_t control, status;
} kiln_floats;
static inline kiln_floats kiln_begin_floats(void) {
  kiln_floats before = {0, 0};
#if defined(__x86_64__)
  uint32_t now = 0;
  const uint32_t nearest = 0x1f80;
  __asm__ volatile("stmxcsr %0" : "=m"(now));
  __asm__ volatile("ldmxcsr %0" : : "m"(nearest));
  before.control = now;
#elif defined(__aarch64__)
  __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(before.control), "=r"(before.status));
  __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
#endif
  return before;
}
static inline void kiln_end_floats(kiln_floats before) {
#if defined(__x86_64__)
  const uint32_t control = (uint32_t)before.control;
  __asm__ volatile("ldmxcsr %0" : : "m"(control));
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(before.control), "r"(before.status));
#else
  (void)before;
#endif
}

typedef struct kiln_stage {
  kiln_entry_fn entry;
  uint64_t chunks; /* programs for each program of the kernel's grid */
} kiln_stage;

/* The programs of one stage: a share a thread, of OpenMP's where this is compiled with OpenMP. */
static inline int32_t kiln_run_stage(const kiln_stage* stage, const void* params, const uint32_t kernel_grid[3],
                                     uint64_t scratch_bytes, void* workspace) {
  const uint64_t wide = kernel_grid[0] * stage->chunks;
  const uint64_t programs = wide * kernel_grid[1] * kernel_grid[2];
  const uint32_t grid[3] = {(uint32_t)wide, kernel_grid[1], kernel_grid[2]};
  int32_t result = KILN_OK;
  if (wide > INT32_MAX) return KILN_BAD_GRID;
#ifdef _OPENMP
#pragma omp parallel
#endif
  {
    uint64_t thread = 0, threads = 1, each, more, first;
    int32_t code = KILN_NO_MEMORY;
    kiln_ctx ctx;
#ifdef _OPENMP
    thread = (uint64_t)omp_get_thread_num();
    threads = (uint64_t)omp_get_num_threads();
#endif
    each = programs / threads;
    more = programs % threads;
    first = thread * each + (thread < more ? thread : more);
    memset(&ctx, 0, sizeof ctx);
    ctx.size = sizeof ctx;
    ctx.workspace = workspace;
    ctx.scratch_bytes = scratch_bytes;
    ctx.scratch = aligned_alloc(64, (scratch_bytes / 64 + 1) * 64);
    if (ctx.scratch) {
      const kiln_floats floats = kiln_begin_floats();
      code = stage->entry(params, grid, first, first + each + (thread < more), &ctx);
      kiln_end_floats(floats);
    }
    free(ctx.scratch);
    if (code != KILN_OK) {
#ifdef _OPENMP
#pragma omp critical(kiln_result)
#endif
      result = code;
    }
  }
  return result;
}

static inline int32_t kiln_run(const kiln_stage* stages, int count, const void* params, const uint32_t grid[3],
                               uint64_t scratch_bytes, uint64_t workspace_bytes) {
  const uint64_t programs = (uint64_t)grid[0] * grid[1] * grid[2];
  int32_t code = KILN_OK;
  uint64_t bytes = 0;
  void* workspace = NULL;
  if (programs == 0) return KILN_OK;
  if (workspace_bytes > 0) {
    if (!__builtin_mul_overflow(workspace_bytes, programs, &bytes) && bytes < UINT64_MAX / 2) {
      workspace = aligned_alloc(64, (bytes / 64 + 1) * 64);
    }
    if (!workspace) return KILN_NO_MEMORY;
  }
  for (int i = 0; i < count && code == KILN_OK; ++i) {
    code = kiln_run_stage(&stages[i], params, grid, scratch_bytes, workspace);
  }
  free(workspace);
  return code;
}
#endif
)";

// An expression of `grid_expr` (docs/reference/artifact.md) in C; empty where it is malformed.
std::string expression(const json& expr, const std::vector<std::string>& fields);

std::string atom(const json& what, const std::vector<std::string>& fields) {
  if (!what.is_array() || what.empty() || !what[0].is_string()) return "";
  const std::string kind = what[0].get<std::string>();
  if (kind == "p" && what.size() == 2 && what[1].is_number_unsigned() && what[1].get<size_t>() < fields.size()) {
    return "(int64_t)params->" + fields[what[1].get<size_t>()];
  }
  if (what.size() != 3 || kind == "p" || kind == "c") return "";
  const std::string a = expression(what[1], fields), b = expression(what[2], fields);
  return a.empty() || b.empty() ? "" : "kiln_" + kind + "(" + a + ", " + b + ", &bad)";
}

std::string combined(const char* function, const std::string& a, const std::string& b) {
  return a.empty() ? b : std::string(function) + "(" + a + ", " + b + ", &bad)";
}

std::string expression(const json& expr, const std::vector<std::string>& fields) {
  std::string sum;
  if (!expr.is_array()) return "";
  for (const json& term : expr) {
    if (!term.is_array() || term.size() != 2 || !term[0].is_number_integer() || !term[1].is_array()) return "";
    const int64_t coefficient = term[0].get<int64_t>();
    std::string product;
    if (coefficient != 1 || term[1].empty()) {
      product = coefficient == INT64_MIN ? "INT64_MIN" : "INT64_C(" + std::to_string(coefficient) + ")";
    }
    for (const json& factor : term[1]) {
      const std::string text = atom(factor, fields);
      if (text.empty()) return "";
      product = combined("kiln_mul", product, text);
    }
    sum = combined("kiln_add", sum, product);
  }
  return sum.empty() ? "0" : sum;
}

void add_params(const json& expr, const std::vector<std::string>& fields, std::set<std::string>& out) {
  for (const json& term : expr) {
    for (const json& factor : term[1]) {
      if (factor[0] == "p") {
        out.insert(fields[factor[1].get<size_t>()]);
      } else {
        add_params(factor[1], fields, out);
        add_params(factor[2], fields, out);
      }
    }
  }
}

// Of an expression that is well-formed: whether one of its arguments is negative.
std::string any_negative(const json& expr, const std::vector<std::string>& fields) {
  std::set<std::string> params;
  add_params(expr, fields, params);
  std::string out;
  for (const std::string& field : params) out += (out.empty() ? "" : " || ") + ("(int64_t)params->" + field) + " < 0";
  return out.empty() ? "0" : out;
}

std::string stages(const abi::Metadata& metadata) {
  if (metadata.plan.empty()) return "{" + metadata.entry + ", 1}";
  std::string out;
  for (const abi::LaunchStep& stage : metadata.plan) {
    out += (out.empty() ? "{" : ", {") + stage.entry + ", " + std::to_string(stage.chunks) + "}";
  }
  return out;
}

// The function that says whether these arguments meet the kernel's conditions; empty where one is malformed.
std::string checks(const std::string& name, const std::vector<std::string>& fields,
                   const std::vector<LaunchCondition>& conditions) {
  std::string out = "/* 0, or KILN_UNMET_CONDITION: a condition of launches does not hold for these arguments. */\n";
  out += "static inline int32_t " + name + "_check(const " + name + "_params* params) {\n  int bad = 0;\n";
  for (const LaunchCondition& condition : conditions) {
    const std::string text = expression(condition.expr, fields);
    if (text.empty()) return "";
    out += "  if (" + text + " == 0 || bad) return KILN_UNMET_CONDITION; /* " + condition.comment + " */\n";
  }
  return out + "  (void)params, (void)bad;\n  return KILN_OK;\n}\n\n";
}

}  // namespace

std::string c_launcher(const std::string& name, const std::vector<std::string>& fields,
                       const std::vector<LaunchCondition>& conditions, const abi::Metadata& metadata) {
  if (metadata.grid_expr.size() != 3) return "";
  std::string extents, negative;
  for (const dsl::Expr& expr : metadata.grid_expr) {
    const json extent = dsl::expr_to_json(expr);
    const std::string text = expression(extent, fields);
    if (text.empty()) return "";
    extents += (extents.empty() ? "" : ", ") + text;
    negative += (negative.empty() ? "" : ", ") + any_negative(extent, fields);
  }
  std::string out = kShared;
  out += "\n/* The grid for these arguments; 0 or KILN_BAD_GRID. */\n";
  out += "static inline int32_t " + name + "_grid(const " + name + "_params* params, uint32_t grid[3]) {\n";
  out += "  int bad = 0;\n";
  out += "  const int64_t extents[3] = {" + extents + "};\n";
  out += "  const int any_negative[3] = {" + negative + "};\n";
  out += "  (void)params;\n  return kiln_check_grid(extents, any_negative, bad, grid);\n}\n\n";
  const std::string check = checks(name, fields, conditions);
  if (check.empty()) return "";
  out += check;
  out +=
      "/* Runs the kernel on the calling thread, or on OpenMP's where this is compiled with OpenMP, with memory that\n"
      " * it allocates. Returns when all is done: 0, an entry's error code, KILN_BAD_GRID, KILN_NO_MEMORY or\n"
      " * KILN_UNMET_CONDITION. What the kernel prints is dropped. */\n";
  out += "static inline int32_t " + name + "_launch(const " + name + "_params* params) {\n";
  out += "  const kiln_stage stages[] = {" + stages(metadata) + "};\n";
  out += "  uint32_t grid[3];\n  int32_t code = " + name + "_check(params);\n";
  out += "  if (code == KILN_OK) code = " + name + "_grid(params, grid);\n";
  out += "  if (code != KILN_OK) return code;\n";
  out += "  return kiln_run(stages, (int)(sizeof stages / sizeof stages[0]), params, grid, ";
  out +=
      std::to_string(metadata.scratch_bytes.value_or(0)) + ", " + std::to_string(metadata.workspace_bytes.value_or(0));
  return out + ");\n}\n\n";
}

}  // namespace kiln::cli
