// The HTML report: style, data and script in one file. Its policy lets the browser fetch nothing.
#include "report/report_json.h"
#include "report/report_page.h"

namespace kiln::autotune {
namespace {

// Inside a script element only `<` could end it or begin a comment.
std::string script_safe(const std::string& json) {
  std::string out;
  for (char c : json) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string html_report(const BatchResult& result) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>Kiln tuning report</title>\n<style>\n";
  out += kReportStyle;
  out += "</style>\n</head>\n<body>\n<main id=\"page\"><noscript>The tables are drawn by a script.</noscript></main>\n";
  out += "<script type=\"application/json\" id=\"data\">";
  out += script_safe(dump_json(page_json(result)));
  out += "</script>\n<script>\n'use strict';\n";
  out += kReportPlots;
  out += kReportScript;
  out += "</script>\n</body>\n</html>\n";
  return out;
}

}  // namespace kiln::autotune
