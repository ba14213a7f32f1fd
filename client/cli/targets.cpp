#include "targets.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "capability_table.h"
#include "kiln/client/artifact.h"
#include "kiln/client/gpu.h"
#include "kiln/target/nearest.h"

namespace kiln::cli {
namespace {

using nlohmann::ordered_json;
using target::NamedTarget;
using target::OpForm;

constexpr std::string_view kHost = "cpu";

std::string counted(int64_t count, const std::string& what) { return std::to_string(count) + " " + what; }

std::string vendor_of(const NamedTarget& target) {
  switch (target.processor.family) {
    case target::Family::kX86:
      return "x86-64";
    case target::Family::kAarch64:
      return "AArch64";
    case target::Family::kNvidia:
      return "NVIDIA";
    case target::Family::kAmd:
      break;
  }
  return "AMD";
}

std::string cpu_text(const target::CpuUnits& cpu, target::Family family) {
  const int bytes = cpu.avx512 ? 64 : cpu.avx2 ? 32 : 16;
  std::string out = "vectors of " + std::to_string(std::max(bytes, cpu.sve_bits / 8)) + " bytes";
  const auto add = [&](bool has, const char* what) {
    if (has) out += std::string(", ") + what;
  };
  add(cpu.fma, "FMA");
  add(cpu.f16_conversions && family == target::Family::kX86, "F16C");
  add(cpu.f16_arithmetic, "f16");
  add(cpu.atomics, "LSE");
  add(cpu.sve_bits > 0, "SVE");
  const bool is_arm = family == target::Family::kAarch64;
  add(cpu.avx10_2, "AVX10.2");
  add(cpu.bytes == target::DotUnit::kInstruction, is_arm ? "DOTPROD" : "VNNI");
  const bool tiles_of_bytes = cpu.bytes == target::DotUnit::kTile, tiles_of_bf16 = cpu.bf16 == target::DotUnit::kTile;
  add(is_arm && tiles_of_bytes, "I8MM");
  add(is_arm && tiles_of_bf16, "BF16");
  add(!is_arm && (tiles_of_bytes || tiles_of_bf16), "AMX");
  return out;
}

// What a multiprocessor or compute unit has.
std::string what_it_is(const NamedTarget& target) {
  const target::Processor& processor = target.processor;
  if (processor.nvidia != nullptr) {
    const target::NvidiaGpu& gpu = *processor.nvidia;
    return counted(gpu.lanes, "lanes") + ", " + counted(gpu.threads, "threads") + ", " +
           counted(gpu.shared_kib, "KiB of shared memory");
  }
  if (processor.amd != nullptr) {
    const target::AmdGpu& gpu = *processor.amd;
    return counted(gpu.lanes, "lanes") + ", " + counted(gpu.threads(), "threads") + ", " +
           counted(gpu.lds_kib, "KiB of LDS");
  }
  return cpu_text(processor.cpu, processor.family);
}

std::string run_on_text(const NamedTarget& target) {
  if (target.name == kHost) return "this machine";
  const std::string_view where = target::run_on(target.name);
  return where.empty() ? "nothing yet" : std::string(where);
}

// By the words of the command line: the devices of this machine by their kinds.
Result<NamedTarget> find(const std::string& name) {
  if (name == kHost) {
#if defined(__aarch64__)
    constexpr target::Family kHere = target::Family::kAarch64;
#else
    constexpr target::Family kHere = target::Family::kX86;
#endif
    return NamedTarget{name, {.family = kHere, .cpu = target::cpu_units(kHere, client::host_features())}};
  }
  if (name != "cuda" && name != "amd") return target::find_target(name);
  auto present = client::devices(name);
  if (!present) return present.error();
  return target::find_target(present->front().target);
}

std::string_view op_of(std::string_view form) { return form.substr(0, form.find(' ')); }

Error no_op(const std::string& op) {
  std::vector<std::string_view> known;
  for (const dsl::OpInfo& each : dsl::op_table()) known.push_back(each.name);
  const std::vector<std::string_view> near = target::nearest_names(op, known);
  const std::string similar =
      near.empty() ? "" : (near.size() == 1 ? "; the nearest is " : "; the nearest are ") + target::listed(near);
  return invalid_argument("there is no op `" + op + "`" + similar + "; docs/reference/ops.md has them all");
}

// "dot": all choices of it; "dot tf32" or "dot.tf32": one.
Result<std::vector<OpForm>> find_forms(const std::string& op) {
  std::string wanted = op;
  std::ranges::replace(wanted, '.', ' ');
  std::vector<OpForm> out;
  for (const OpForm& form : target::op_forms()) {
    const std::string name = to_string(form);
    if (wanted.empty() || name == wanted || op_of(name) == wanted) out.push_back(form);
  }
  return out.empty() ? Result<std::vector<OpForm>>(no_op(op)) : out;
}

void print_list(const std::vector<NamedTarget>& targets) {
  const auto print = [](const std::string& name, const std::string& family, const std::string& what,
                        const std::string& where) {
    std::printf("%-20s %-8s %-50s %s\n", name.c_str(), family.c_str(), what.c_str(), where.c_str());
  };
  print("target", "family", "what it has", "run on");
  for (const NamedTarget& each : targets) print(each.name, vendor_of(each), what_it_is(each), run_on_text(each));
}

void print_matrix(const NamedTarget& target, const std::vector<OpForm>& forms) {
  CapabilityTable table("op");
  for (const OpForm& form : forms) table.add_row(to_string(form), form, target.processor);
  std::printf("%s: %s, %s; run on %s\n\n%s", target.name.c_str(), vendor_of(target).c_str(), what_it_is(target).c_str(),
              run_on_text(target).c_str(), table.text().c_str());
}

void print_across(const std::vector<NamedTarget>& targets, const std::vector<OpForm>& forms) {
  for (const OpForm& form : forms) {
    CapabilityTable table(to_string(form));
    for (const NamedTarget& each : targets) table.add_row(each.name, form, each.processor);
    std::printf("%s%s", form == forms.front() ? "" : "\n", table.text().c_str());
  }
}

ordered_json json_of(const OpForm& form, const target::Processor& processor) {
  ordered_json out = ordered_json::object();
  for (int i = 0; i < dsl::kElementTypeCount; ++i) {
    const auto element = static_cast<dsl::ElementType>(i);
    const target::Capability has = capability(form, element, processor);
    ordered_json& cell = out[std::string(dsl::info(element).name)];
    cell["support"] = to_string(has.support);
    if (!has.how.empty()) cell["how"] = has.how;
    if (!has.instruction.empty()) cell["instruction"] = has.instruction;
  }
  return out;
}

ordered_json json_of(const NamedTarget& target, const std::vector<OpForm>& forms) {
  ordered_json out = {{"target", target.name},
                      {"family", vendor_of(target)},
                      {"has", what_it_is(target)},
                      {"run_on", target::run_on(target.name)}};
  for (const OpForm& form : forms) out["ops"][to_string(form)] = json_of(form, target.processor);
  return out;
}

}  // namespace

Result<void> targets(const TargetsFlags& flags) {
  auto forms = find_forms(flags.op);
  if (!forms) return forms.error();
  std::vector<NamedTarget> wanted;
  for (const std::string& name : flags.targets) {
    auto found = find(name);
    if (!found) return found.error();
    wanted.push_back(std::move(*found));
  }
  if (flags.targets.empty()) wanted = target::named_targets();
  const bool is_list = flags.targets.empty() && flags.op.empty();
  if (flags.json) {
    ordered_json out = ordered_json::array();
    for (const NamedTarget& each : wanted) out.push_back(json_of(each, is_list ? std::vector<OpForm>() : *forms));
    std::printf("%s\n", out.dump(1).c_str());
  } else if (is_list) {
    print_list(wanted);
  } else if (wanted.size() == 1) {
    print_matrix(wanted.front(), *forms);
  } else {
    print_across(wanted, *forms);
  }
  return {};
}

void add_targets_command(CLI::App& app, TargetsFlags& flags, std::function<Result<void>()>& action) {
  CLI::App* command = app.add_subcommand("targets", "What code can be made for, and how each op is computed there");
  command->add_option(
      "target", flags.targets,
      "sm_90a, gfx942, x86-64-v3, cpu (this machine), or a target in full; without any the list of all");
  command->add_option("--op", flags.op, "Only this op: dot, math, \"math exp\"; without a target across all of them");
  command->add_flag("--json", flags.json, "As JSON");
  command->callback([&] { action = [&] { return targets(flags); }; });
}

}  // namespace kiln::cli
