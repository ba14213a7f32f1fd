#include "page.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <functional>
#include <map>

namespace kiln::bench {
namespace {

constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<title>Kiln on this CPU</title>
<style>
body { font: 14px/1.4 sans-serif; margin: 2em auto; max-width: 76em; padding: 0 1em; color: #222; background: #fff }
table { border-collapse: collapse; font-size: 13px }
th, td { padding: 2px 10px; text-align: right; border-bottom: 1px solid #ddd }
th { position: sticky; top: 0; background: #fff }
td.text, th.text { text-align: left }
tr.missed td { background: #fdecea }
svg { display: block }
svg text { font: 12px sans-serif; fill: #222 }
</style>
</head>
<body>
)";

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

__attribute__((format(printf, 1, 2))) std::string formatted(const char* format, ...) {
  char out[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(out, sizeof out, format, arguments);
  va_end(arguments);
  return out;
}

std::string label_of(const Comparison& row) {
  return escaped(row.name + (row.dtype == "f32" ? "" : " " + row.dtype) + ", " + row.metric);
}

// ---- bars ----

struct Bar {
  std::string label, note;  // escaped
  double value;
  bool missed;
};

// Horizontal bars of positive numbers, scaled by position(value) in [0, 1], with marked values as vertical lines.
std::string bars(const std::vector<Bar>& rows, const std::vector<double>& marks, const char* mark_format,
                 const std::function<double(double)>& position) {
  constexpr int kLabel = 420, kPlot = 480, kWidth = 1080, kRow = 18, kTop = 20;
  const int height = kTop + kRow * static_cast<int>(rows.size()) + 6;
  auto x_of = [&](double value) { return kLabel + kPlot * std::clamp(position(value), 0.0, 1.0); };
  std::string out = formatted("<svg width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n", kWidth, height,
                              kWidth, height);
  for (double mark : marks) {
    const double x = x_of(mark);
    out += formatted("<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"%s\"/>\n", x, kTop - 4, x, height,
                     mark == 1 ? "#444" : "#ccc");
    out += formatted("<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", x, kTop - 8) + formatted(mark_format, mark) +
           "</text>\n";
  }
  int y = kTop;
  for (const Bar& row : rows) {
    const double length = std::max(1.0, x_of(row.value) - kLabel);
    out += formatted("<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n", kLabel, y + 3, length,
                     kRow - 5, row.missed ? "#c0504d" : "#4f81bd");
    out += formatted("<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", kLabel - 6, y + 13) + row.label + "</text>\n";
    out += formatted("<text x=\"%.1f\" y=\"%d\">", kLabel + length + 5, y + 13) + row.note + "</text>\n";
    y += kRow;
  }
  return out + "</svg>\n";
}

std::string ratio_bars(const std::vector<Comparison>& rows) {
  std::vector<Bar> out;
  for (const Comparison& row : rows) {
    if (row.ratio <= 0) continue;
    out.push_back({label_of(row), formatted("%.2f of ", row.ratio) + escaped(row.peer), row.ratio,
                   row.bar > 0 && row.ratio < row.bar});
  }
  if (out.empty()) return "";
  // By powers of two from a quarter to 16.
  return bars(out, {0.25, 0.5, 1, 2, 4, 8, 16}, "%g", [](double ratio) { return (std::log2(ratio) + 2) / 6; });
}

std::string share_bars(const std::vector<Comparison>& rows) {
  std::vector<Bar> out;
  for (const Comparison& row : rows) {
    if (row.share <= 0 || row.area == "chains (fused peers)") continue;
    out.push_back({label_of(row), formatted("%.0f %%", 100 * row.share), row.share, row.share < row.share_bar});
  }
  if (out.empty()) return "";
  return bars(out, {0.25, 0.5, 0.75, 1}, "%g", [](double share) { return share / 1.5; });
}

// ---- tables ----

std::string cell(const std::string& text, bool left = false) {
  return (left ? "<td class=\"text\">" : "<td>") + escaped(text) + "</td>";
}
std::string number(double value, const char* format) { return value > 0 ? formatted(format, value) : "-"; }

std::string summary(const std::vector<std::string>& areas, const std::map<std::string, std::vector<Comparison>>& rows) {
  std::string out =
      "<table><thead><tr><th class=\"text\">group</th><th>compared</th><th>geometric mean of ratios</th><th>least</th>"
      "<th>below their bar</th></tr></thead><tbody>\n";
  for (const std::string& area : areas) {
    double logs = 0, least = 0;
    int count = 0, missed = 0;
    for (const Comparison& row : rows.at(area)) {
      if (row.ratio <= 0) continue;
      logs += std::log(row.ratio);
      least = count ? std::min(least, row.ratio) : row.ratio;
      ++count;
      missed += row.misses_bar();
    }
    out += "<tr>" + cell(area, true) + cell(std::to_string(count)) +
           cell(count ? formatted("%.2f", std::exp(logs / count)) : "-") + cell(number(least, "%.2f")) +
           cell(std::to_string(missed)) + "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

std::string comparisons(const std::vector<Comparison>& rows) {
  std::string out =
      "<table><thead><tr><th class=\"text\">case</th><th class=\"text\">metric</th><th>Kiln</th><th>best peer</th>"
      "<th class=\"text\"></th><th>ratio</th><th>bar</th><th>share of the ceiling</th></tr></thead><tbody>\n";
  for (const Comparison& row : rows) {
    out += row.misses_bar() ? "<tr class=\"missed\">" : "<tr>";
    out += cell(row.name + " " + row.dtype, true) + cell(row.metric, true) + cell(number(row.ours, "%.5g")) +
           cell(number(row.best, "%.5g")) + cell(row.peer, true) + cell(number(row.ratio, "%.2f")) +
           cell(number(row.bar, "%.2f")) + cell(number(row.share, "%.2f")) + "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

std::string raw(const Report& report) {
  std::string out =
      "<details><summary>All measurements</summary>\n<table><thead><tr><th class=\"text\">area</th>"
      "<th class=\"text\">case</th><th class=\"text\">type</th><th class=\"text\">who</th><th "
      "class=\"text\">metric</th>"
      "<th>value</th></tr></thead><tbody>\n";
  for (const Measurement& m : report.measurements) {
    out += "<tr>" + cell(m.area, true) + cell(m.name, true) + cell(m.dtype, true) + cell(m.who, true) +
           cell(m.metric, true) + cell(formatted("%.5g", m.value)) + "</tr>\n";
  }
  return out + "</tbody></table>\n</details>\n";
}

}  // namespace

std::string page_of(const Report& report) {
  std::vector<std::string> areas;
  std::map<std::string, std::vector<Comparison>> by_area;
  for (const Comparison& row : compare(report)) {
    if (!by_area.count(row.area)) areas.push_back(row.area);
    by_area[row.area].push_back(row);
  }
  std::string out = std::string(kHead) + "<h1>Kiln on this CPU</h1>\n<ul>\n";
  for (const std::string& fact : report.machine) out += "<li>" + escaped(fact) + "</li>\n";
  out +=
      "</ul>\n<p>Ratios are our speed over that of the fastest peer, on the same data sizes and in the same run, by "
      "turns; "
      "medians. “1t” is one thread; “hot” stays in the second-level cache, “cold” finds other data there. Shares are "
      "of what this machine copies, reads or multiplies at best on as many bytes. What misses its bar is red.</p>\n" +
      summary(areas, by_area);
  for (const std::string& area : areas) {
    const std::string ratios = ratio_bars(by_area[area]), shares = share_bars(by_area[area]);
    out += "<h2>" + escaped(area) + "</h2>\n";
    if (!ratios.empty()) out += "<h3>Speed over the fastest peer</h3>\n" + ratios;
    if (!shares.empty()) out += "<h3>Share of the ceiling</h3>\n" + shares;
    out += "<h3>Figures</h3>\n" + comparisons(by_area[area]);
  }
  return out + "<h2>Raw</h2>\n" + raw(report) + "</body>\n</html>\n";
}

}  // namespace kiln::bench
