from lsp_calib.cli import main

if __name__ == "__main__":
    main()
