#include "draw/plan_boxes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "draw/style.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/text.h"

namespace kiln::graph {
namespace {

std::string launch_id(size_t launch) { return "l" + std::to_string(launch); }

std::string with_unit(double number, std::initializer_list<const char*> units) {
  const char* const* unit = units.begin();
  for (; number >= 1000 && unit + 1 < units.end(); ++unit) number /= 1000;
  char text[32];
  const bool is_short = number < 10 && number != std::floor(number);
  std::snprintf(text, sizeof text, is_short ? "%.1f %s" : "%.0f %s", number, *unit);
  return text;
}

// The launches that a launch reads from, and inputs by name.
struct Sources {
  std::vector<size_t> launches;
  std::vector<std::string> inputs;
};

class Boxes {
 public:
  explicit Boxes(const PlanDrawing& drawing) : drawing_(drawing), plan_(drawing.plan) {
    sizes_.constexprs.resize(plan_.dims.size());
    for (size_t i = 0; i < plan_.dims.size(); ++i) {
      const auto given = drawing.sizes.find(plan_.dims[i].name);
      if (given != drawing.sizes.end()) sizes_.constexprs[i] = given->second;
    }
    follow_buffers();
  }

  std::string html() const {
    std::string out;
    for (const PlannedTensor& input : plan_.inputs) out += end(input);
    std::vector<size_t> ends;  // of the loops that are open
    size_t loop = 0;
    for (size_t i = 0; i < plan_.launches.size(); ++i) {
      for (; loop < plan_.loops.size() && plan_.loops[loop].first == i; ++loop) {
        const PlannedLoop& each = plan_.loops[loop];
        out += "<div class=\"loop\"><span>" + escaped(text(each.length)) + " times</span>\n";
        ends.push_back(each.first + each.count);
      }
      out += box(i);
      for (; !ends.empty() && ends.back() == i + 1; ends.pop_back()) out += "</div>\n";
    }
    for (const PlannedTensor& output : plan_.outputs) out += end(output);
    return out;
  }

  std::string facts() const {
    std::string out;
    for (size_t i = 0; i < plan_.launches.size(); ++i) {
      const PlannedLaunch& launch = plan_.launches[i];
      out += launch_id(i) + ":[";
      for (const std::string& fact : {launch.name, reads(sources_[i]), text(launch.moved) + " bytes" + time(i),
                                      launch.place, plan_.kernels[launch.kernel].kernel.name, std::string()}) {
        out += script_string(fact) + ',';
      }
      out += '[';
      for (const size_t source : sources_[i].launches) out += '"' + launch_id(source) + "\",";
      out += "]," + std::to_string(launch.kernel) + "],\n";
    }
    return out;
  }

 private:
  // Who wrote each buffer last, before a launch that has it. One that a launch may write is read by it too, if another
  // wrote it before: it may write a part.
  void follow_buffers() {
    std::vector<size_t> writers(plan_.buffers.size(), plan_.launches.size());
    for (size_t i = 0; i < plan_.launches.size(); ++i) {
      const PlannedLaunch& launch = plan_.launches[i];
      const auto& params = plan_.kernels[launch.kernel].kernel.params;
      Sources& from = sources_.emplace_back();
      for (const PlannedArgument& argument : launch.arguments) {
        if (argument.kind != PlannedArgument::Kind::kBuffer) continue;
        const PlannedBuffer& buffer = plan_.buffers[argument.buffer];
        if (buffer.home == PlannedBuffer::Home::kInput) from.inputs.push_back(plan_.inputs[buffer.index].name);
        if (writers[argument.buffer] < i) from.launches.push_back(writers[argument.buffer]);
      }
      for (size_t k = 0; k < params.size(); ++k) {
        if (params[k].type.pointer && !params[k].readonly) writers[launch.arguments[k].buffer] = i;
      }
      std::ranges::sort(from.launches);
      from.launches.erase(std::ranges::unique(from.launches).begin(), from.launches.end());
    }
  }

  static std::string reads(const Sources& from) {
    std::string out;
    for (const std::string& name : from.inputs) out += (out.empty() ? "" : ", ") + name;
    for (const size_t launch : from.launches) out += (out.empty() ? "" : ", ") + std::to_string(launch);
    return out.empty() ? "" : "reads " + out;
  }

  std::string text(const Expr& expr) const {
    const dsl::ExprNames names{[this](uint32_t dim) { return plan_.dims[dim].name; },
                               [](uint32_t param) { return "?" + std::to_string(param); }};
    return to_string(expr.substitute(sizes_), names);
  }

  std::string bytes(const Expr& expr) const {
    const auto known = expr.evaluate(sizes_);
    return known ? with_unit(static_cast<double>(*known), {"B", "kB", "MB", "GB"}) : text(expr) + " B";
  }

  std::string time(size_t launch) const {
    return launch < drawing_.us.size() ? " · " + with_unit(drawing_.us[launch], {"µs", "ms", "s"}) : "";
  }

  // What part of the whole a launch is, by time or else by bytes, in percent.
  int share(size_t launch) const {
    double whole = 0, own = 0;
    for (size_t i = 0; i < plan_.launches.size(); ++i) {
      const auto moved = plan_.launches[i].moved.evaluate(sizes_);
      const double each = i < drawing_.us.size() ? drawing_.us[i] : moved ? static_cast<double>(*moved) : 0;
      whole += each;
      if (i == launch) own = each;
    }
    return whole > 0 ? static_cast<int>(100 * own / whole + 0.5) : 0;
  }

  std::string end(const PlannedTensor& tensor) const {
    const dsl::ExprNames names{[this](uint32_t dim) { return plan_.dims[dim].name; }, {}};
    return "<div class=\"end\"><b>" + escaped(tensor.name) + "</b> " + escaped(to_string(tensor.type, names)) +
           "</div>\n";
  }

  std::string box(size_t launch) const {
    const PlannedLaunch& each = plan_.launches[launch];
    const std::string from = reads(sources_[launch]);
    return "<a class=\"launch\" data-node=\"" + launch_id(launch) + "\"><b>" + std::to_string(launch) + "&ensp;" +
           escaped(each.name) + "</b><span>" + escaped(bytes(each.moved) + time(launch)) + "</span><i>" +
           escaped(from) + "</i><u style=\"width:" + std::to_string(share(launch)) + "%\"></u></a>\n";
  }

  const PlanDrawing& drawing_;
  const Plan& plan_;
  dsl::Bindings sizes_;
  std::vector<Sources> sources_;
};

}  // namespace

std::string plan_boxes(const PlanDrawing& compiled) { return Boxes(compiled).html(); }

std::string launch_facts(const PlanDrawing& compiled) { return Boxes(compiled).facts(); }

std::string kernel_texts(const Plan& plan) {
  std::string out = "[";
  for (const PlannedKernel& kernel : plan.kernels) {
    const auto whole = kernel.encoded.empty() ? Result<dsl::Kernel>(kernel.kernel) : dsl::decode_kernel(kernel.encoded);
    const std::string code = kernel.code ? "\n" + kernel.code->text : "";
    out += script_string(whole ? dsl::print(*whole) + code : whole.error().message) + ",\n";
  }
  return out + "]";
}

std::string script_string(const std::string& text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&') {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace kiln::graph
