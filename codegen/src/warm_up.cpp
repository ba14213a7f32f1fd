// What a process does before it forks those that compile.
#include "backend.h"
#include "kiln/codegen/compile.h"
#include "kiln/dsl/text.h"
#include "memory_file.h"

namespace kiln::codegen {
namespace {

// Touches what every kernel needs: address arithmetic, masks, vectors, math, a reduction.
constexpr char kKernel[] =
    "kernel warm_up(%x: ptr<f32> readonly, %y: ptr<f32>, %n: i32) {\n"
    "  grid [1, 1, 1]\n"
    "  %i = arange {start = 0, end = 256} : tile<[256], i32>\n"
    "  %s = splat %n {shape = [256]} : tile<[256], i32>\n"
    "  %m = cmp %i, %s {pred = lt} : tile<[256], i1>\n"
    "  %a = splat %x {shape = [256]} : tile<[256], ptr<f32>>\n"
    "  %p = addptr %a, %i : tile<[256], ptr<f32>>\n"
    "  %v = load %p, %m : tile<[256], f32>\n"
    "  %e = math %v {fn = exp} : tile<[256], f32>\n"
    "  %t = reduce %e {kind = sum, axis = 0} : f32\n"
    "  %u = splat %t {shape = [256]} : tile<[256], f32>\n"
    "  %d = div %e, %u : tile<[256], f32>\n"
    "  %b = splat %y {shape = [256]} : tile<[256], ptr<f32>>\n"
    "  %q = addptr %b, %i : tile<[256], ptr<f32>>\n"
    "  store %q, %d, %m\n"
    "}\n";

}  // namespace

void start_helpers(const Outside& outside) {
  for (const Backend* backend : backends()) {
    if (backend->start_helpers) backend->start_helpers(outside);
  }
  MemoryFile::set_aside();
}

void initialise(const Outside& outside) {
  for (const Backend* backend : backends()) backend->initialise(outside);
}

void warm_up(const Outside& outside, const std::string& target) {
  initialise(outside);
  auto kernel = dsl::parse(kKernel, "warm_up");
  if (!kernel) return;
  const auto request = dsl::encode_request({std::move(*kernel), target.empty() ? native_target() : target, {}, {}});
  if (request) (void)compile(request->canonical, request->debug, {});
}

}  // namespace kiln::codegen
