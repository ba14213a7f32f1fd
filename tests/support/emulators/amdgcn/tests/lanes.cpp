// Hand-written assembly over the lanes of a wave; see lanes.h.
#include "lanes.h"

#include <numeric>

namespace kiln::amdgcn_emulator {

std::vector<LaneOutput> run_lanes(const std::string& processor, const std::string& body,
                                  const std::vector<LaneInput>& inputs, std::vector<uint32_t>* memory) {
  SCOPED_TRACE(processor + ": " + body);
  const std::string exec = is_wave64(processor) ? "s_mov_b64 exec, -1\n" : "s_mov_b32 exec_lo, -1\n";
  std::string text = R"(
s_load_dwordx4 s[4:7], s[0:1], 0x0
s_load_dwordx2 s[8:9], s[0:1], 0x10
s_mov_b64 s[10:11], exec
v_and_b32 v0, 0x3ff, v0
v_mov_b32 v1, 0
v_lshlrev_b32 v20, 4, v0
v_lshlrev_b32 v21, 5, v0
global_load_dwordx4 v[2:5], v20, s[6:7]
v_add_u32 v10, 0xaaaa0000, v0
)";
  if (!is_wave64(processor)) text.replace(text.find("v_add_u32"), 9, "v_add_nc_u32");
  for (int i = 11; i < 18; ++i) text += "v_mov_b32 v" + std::to_string(i) + ", v10\n";
  text += body + "\n" + exec + R"(
global_store_dwordx4 v21, v[10:13], s[4:5]
global_store_dwordx4 v21, v[14:17], s[4:5] offset:16
)";
  CodeObject object = assemble(processor, text);
  std::vector<LaneOutput> outputs(inputs.size());
  std::vector<LaneInput> in = inputs;
  std::vector<uint32_t> storage(256);
  std::iota(storage.begin(), storage.end(), 0);
  std::vector<MemoryRange> ranges = {range_of(outputs), range_of(in, false), range_of(storage)};
  Arguments arguments;
  arguments.add(outputs.data()).add(in.data()).add(storage.data());
  Launch launch;
  launch.threads = static_cast<uint32_t>(inputs.size());
  launch.arguments = arguments.bytes();
  launch.memory = ranges;
  Result<Statistics> result = run(object, "kernel", launch);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  if (memory) *memory = storage;
  return outputs;
}

std::vector<LaneInput> numbered_lanes(const std::string& processor) {
  std::vector<LaneInput> inputs(lanes_of(processor));
  for (uint32_t lane = 0; lane < inputs.size(); ++lane)
    inputs[lane] = {lane, 100 + lane, bits_of(static_cast<float>(lane)), 1u << lane % 32};
  return inputs;
}

std::vector<LaneInput> uniform_lanes(const std::string& processor, LaneInput input) {
  return std::vector<LaneInput>(lanes_of(processor), input);
}

}  // namespace kiln::amdgcn_emulator
