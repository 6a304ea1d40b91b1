"""What of Gemini is refused, row by row: fields that are added to a body, and the field that the refusal names."""

from __future__ import annotations

from typing import Any

HI: list[Any] = [{"role": "user", "parts": [{"text": "Hi"}]}]


def part(**fields: Any) -> dict[str, Any]:
    return {"contents": [{"parts": [fields]}]}


def config(**fields: Any) -> dict[str, Any]:
    return {"generationConfig": fields}


REFUSED: list[tuple[dict[str, Any], str]] = [
    # function calling, toolConfig
    ({"tools": [{"functionDeclarations": [{"name": "f"}]}]}, "tools[0].functionDeclarations"),
    ({"tools": [{"function_declarations": [{"name": "f"}]}]}, "tools[0].functionDeclarations"),
    ({"toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}}, "toolConfig"),
    ({"tool_config": {"function_calling_config": {"mode": "ANY"}}}, "toolConfig"),
    ({"toolConfig": {"retrievalConfig": {}}}, "toolConfig"),
    # search, grounding, URL context, maps
    ({"tools": [{"googleSearch": {}}]}, "tools[0].googleSearch"),
    ({"tools": [{}, {"google_search": {}}]}, "tools[1].googleSearch"),
    ({"tools": [{"googleSearchRetrieval": {}}]}, "tools[0].googleSearchRetrieval"),
    ({"tools": [{"retrieval": {}}]}, "tools[0].retrieval"),
    ({"tools": [{"urlContext": {}}]}, "tools[0].urlContext"),
    ({"tools": [{"url_context": {}}]}, "tools[0].urlContext"),
    ({"tools": [{"googleMaps": {}}]}, "tools[0].googleMaps"),
    ({"tools": [{"enterpriseWebSearch": {}}]}, "tools[0].enterpriseWebSearch"),
    # code execution and other hosted tools
    ({"tools": [{"codeExecution": {}}]}, "tools[0].codeExecution"),
    ({"tools": [{"computerUse": {}}]}, "tools[0].computerUse"),
    ({"tools": [{"fileSearch": {}}]}, "tools[0].fileSearch"),
    # cached content
    ({"cachedContent": "cachedContents/1"}, "cachedContent"),
    ({"cached_content": "cachedContents/1"}, "cachedContent"),
    # media and files
    (part(inlineData={"mimeType": "image/png", "data": "AA=="}), "contents[0].parts[0].inlineData"),
    (part(inline_data={"mime_type": "audio/wav", "data": "AA=="}), "contents[0].parts[0].inlineData"),
    (part(fileData={"fileUri": "files/1"}), "contents[0].parts[0].fileData"),
    (
        {"contents": [*HI, {"role": "user", "parts": [{"text": "x"}, {"file_data": {}}]}]},
        "contents[1].parts[1].fileData",
    ),
    # other parts
    (part(functionCall={"name": "f"}), "contents[0].parts[0].functionCall"),
    (part(function_response={"name": "f"}), "contents[0].parts[0].functionResponse"),
    (part(executableCode={}), "contents[0].parts[0].executableCode"),
    (part(codeExecutionResult={}), "contents[0].parts[0].codeExecutionResult"),
    (part(text="x", videoMetadata={}), "contents[0].parts[0].videoMetadata"),
    # structured output
    (config(responseSchema={"type": "OBJECT"}), "generationConfig.responseSchema"),
    (config(responseJsonSchema={}), "generationConfig.responseJsonSchema"),
    ({"generation_config": {"response_schema": {}}}, "generationConfig.responseSchema"),
    (config(responseMimeType="application/json"), "generationConfig.responseMimeType"),
    (config(response_mime_type="text/x.enum"), "generationConfig.responseMimeType"),
    # candidates
    (config(candidateCount=2), "generationConfig.candidateCount"),
    (config(candidateCount=0), "generationConfig.candidateCount"),
    # other output than text
    (config(responseModalities=["TEXT", "IMAGE"]), "generationConfig.responseModalities"),
    (config(speechConfig={}), "generationConfig.speechConfig"),
    (config(imageConfig={}), "generationConfig.imageConfig"),
    (config(responseLogprobs=True), "generationConfig.responseLogprobs"),
    (config(logprobs=3), "generationConfig.logprobs"),
    # roles
    ({"contents": [{"role": "system", "parts": [{"text": "x"}]}]}, "contents[0].role"),
    ({"contents": [*HI, {"role": "function", "parts": [{"text": "x"}]}]}, "contents[1].role"),
    # contents without an answerable text
    ({"contents": []}, "contents"),
    ({"contents": None}, "contents"),
    ({"contents": [{"role": "user", "parts": []}]}, "contents"),
    ({"contents": [{"role": "user"}]}, "contents"),
    ({"contents": [{"parts": [{}]}]}, "contents"),
    ({"contents": [{"parts": [{"text": ""}]}]}, "contents"),
    (part(text="x", inlineData={"data": "AA=="}), "contents"),
    ({"contents": [*HI, {"role": "model", "parts": [{"text": "x"}]}]}, "contents"),
    # system instruction
    ({"systemInstruction": {"parts": [{"text": "x"}, {"inlineData": {}}]}}, "systemInstruction.parts[1]"),
    ({"system_instruction": {"parts": [{"functionCall": {}}]}}, "systemInstruction.parts[0]"),
    # unknown names
    ({"messages": []}, "messages"),
    (config(max_tokens=3), "generationConfig.max_tokens"),
    (part(text="x", texts="y"), "contents[0].parts[0].texts"),
    ({"tools": [{"magic": {}}]}, "tools[0].magic"),
]
